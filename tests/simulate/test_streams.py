"""Streams and collectives of hand-made work, whose times are counted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tracelens_graph.simulate.events import Collective, GpuEvent, Member
from tracelens_graph.simulate.job import Devices, drive
from tracelens_graph.simulate.options import BUFFER_BYTES, KINDS, awaited_ranks
from tracelens_graph.simulate.places import Group


def work(ready: int, duration: int = 0, stream: int = 7, waits: tuple[GpuEvent, ...] = ()) -> GpuEvent:
    return GpuEvent("kernel", "k", stream, duration, ready=ready, waits=waits, gap=10)


def together(kind: str, works: list[GpuEvent], root: int | None = None, noise: tuple[int, ...] = (0, 0, 0)) -> None:
    """Make works of the ranks 0, 1, … one collective that takes 30 ns once those have come that count."""
    ranks = tuple(range(len(works)))
    what = KINDS[kind]
    one = Collective(Group("0", "d", ranks), 1, kind, "Float", ranks, 1, "seed", 5, what.is_barrier)
    for rank, gpu in enumerate(works):
        gpu.collective = one
        awaits = awaited_ranks(what, rank, ranks, root, (1,) * len(ranks), 1)
        one.members[rank] = Member(rank, gpu, 1, 1, 1, 30, noise[rank], awaits)


def times(devices: list[list[GpuEvent]]) -> list[list[tuple[int, int]]]:
    processes: Any = [SimpleNamespace(gpus=works) for works in devices]
    Devices(processes).run()
    return [[(gpu.start, gpu.end) for gpu in works] for works in devices]


def test_work_waits_for_launch_stream_and_other_streams() -> None:
    first = work(100, 50)
    second, other = work(120, 40), work(0, 500, stream=20)
    third = work(160, 5, waits=(other,))
    assert times([[first, second, other, third]]) == [[(100, 150), (160, 200), (0, 500), (500, 505)]]
    assert [gpu.previous for gpu in (first, second, third, other)] == [None, first, second, None]


def test_a_barrier_ends_when_all_have_come() -> None:
    works = [work(100), work(250), work(0)]
    together("allreduce", works, noise=(0, 7, 0))
    assert times([[gpu] for gpu in works]) == [[(100, 280)], [(250, 287)], [(0, 280)]]
    collective = works[0].collective
    assert collective is not None
    assert [member.wait for member in collective.members.values()] == [150, 0, 250]


def test_a_source_leaves_before_others_come() -> None:
    works = [work(900), work(100), work(0)]
    together("broadcast", works, root=1)
    assert times([[gpu] for gpu in works]) == [[(900, 930)], [(100, 130)], [(0, 130)]]


def test_all_but_the_target_of_a_reduce_leave_at_once() -> None:
    works = [work(900), work(100), work(0)]
    together("reduce", works, root=1)
    assert times([[gpu] for gpu in works]) == [[(900, 930)], [(100, 930)], [(0, 30)]]


def test_a_stream_behind_a_collective_goes_on_when_it_ends() -> None:
    works = [work(0), work(400)]
    together("_allgather_base", works, noise=(0, 0))
    after = work(0, 5)
    assert times([[works[0], after], [works[1]]])[0] == [(0, 430), (440, 445)]


@pytest.mark.parametrize(
    ("kind", "rank", "size", "awaited"),
    [
        ("send", 0, BUFFER_BYTES, (0,)),
        ("send", 0, BUFFER_BYTES + 1, None),
        ("recv", 1, 1, None),
    ],
)
def test_small_messages_leave_before_their_receiver_comes(
    kind: str, rank: int, size: int, awaited: tuple[int, ...] | None
) -> None:
    assert awaited_ranks(KINDS[kind], rank, (0, 1), None, (), size) == awaited


def test_ranks_that_exchange_nothing_do_not_wait_for_each_other() -> None:
    assert awaited_ranks(KINDS["all_to_allv"], 2, (0, 1, 2), None, (0, 5, 0), 1) == (1, 2)


def test_ranks_that_wait_for_each_other_for_ever_are_named() -> None:
    alone = work(0)
    together("allreduce", [alone, work(0)])

    def program(works: tuple[GpuEvent, ...]) -> Iterator[tuple[GpuEvent, ...]]:
        yield works

    processes: Any = [SimpleNamespace(gpus=[alone]), SimpleNamespace(gpus=[])]
    with pytest.raises(RuntimeError, match=r"wait for each other: \[0\]"):
        drive([program((alone,)), program(())], Devices(processes))
