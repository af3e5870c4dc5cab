"""Slow links of simulated jobs: each planted one is named first, and no rank with it; in sound jobs none."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from html_pages import read
from made_jobs import simulated_job
from simulated_jobs import Job, write

import tracelens_graph as tlg
from tracelens_graph.analyses.ranks.job import Job as Ranks
from tracelens_graph.analyses.ranks.pictures import BandwidthPoints, PairMatrix, WaitMap
from tracelens_graph.cli.hints import Asked
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.reports.html.ranks import ranks_page
from tracelens_graph.reports.ranks_picture import drawings
from tracelens_graph.reports.ranks_text import late_lines
from tracelens_graph.reports.views import with_headings

Share = Callable[[int, int], float]


def way(source: int, target: int, share: float = 0.3) -> Share:
    """One direction between two ranks."""
    return lambda one, other: share if (one, other) == (source, target) else 1.0


def of(number: int, width: int, share: float = 0.3) -> Share:
    """All links into and out of a rank, host or switch of so many ranks."""

    def share_of(one: int, other: int) -> float:
        ends = {one // width, other // width}
        return share if len(ends) == 2 and number in ends else 1.0

    return share_of


def both(*shares: Share) -> Share:
    """All of these."""
    return lambda one, other: min(share(one, other) for share in shares)


def racks(host: int) -> str:
    """Names of hosts, two in a rack."""
    return f"rack{host // 2}-node{host:02}"


NO_SHARE = Job().share

PLANTED: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "a pair of a pipeline": ({"ranks": 8, "pipeline": 8, "slow": (((3, 4), 0.2),)}, ["rank 3 and rank 4:"]),
    "one way of a pipeline": ({"ranks": 8, "pipeline": 8, "share": way(5, 4)}, ["rank 5 -> 4:"]),
    "the one link of two stages, one way": ({"ranks": 2, "pipeline": 2, "share": way(1, 0, 0.2)}, ["rank 1 -> 0:"]),
    "a pair of a ring": ({"ranks": 8, "style": "ring", "share": way(2, 3)}, ["rank 2 -> 3:"]),
    "one of several rings": ({"ranks": 16, "tensor": 2, "style": "ring", "share": way(2, 4)}, ["rank 2 -> 4:"]),
    "a host of a pipeline": (
        {"ranks": 16, "per_host": 4, "pipeline": 4, "share": of(2, 4)}, ["all 16 of host 2 (ranks 8-11):"],
    ),
    "a host of a ring": (
        {"ranks": 16, "per_host": 4, "style": "ring", "share": of(1, 4)}, ["all 2 of host 1 (ranks 4-7):"],
    ),
    "a host, all groups": (
        {"ranks": 16, "per_host": 2, "pipeline": 4, "share": of(1, 2)}, ["all 5 of host 1 (ranks 2, 3):"],
    ),
    "a rank": ({"ranks": 16, "tensor": 2, "pipeline": 4, "share": of(6, 1)}, ["of rank 6:"]),
    "a tensor-parallel group": ({"ranks": 16, "tensor": 4, "slow": ((range(4, 8), 0.3),)}, ["group of ranks 4-7"]),
    "a data-parallel group": (
        {"ranks": 16, "tensor": 4, "slow": (((1, 5, 9, 13), 0.3),)}, ["group of ranks 1, 5, 9, 13"],
    ),
    "a group with shards": (
        {"ranks": 8, "tensor": 2, "style": "fsdp", "slow": (((0, 2, 4, 6), 0.3),)}, ["group of ranks 0, 2, 4, 6"],
    ),
    "a group with experts": (
        {"ranks": 16, "tensor": 4, "style": "moe", "slow": (((2, 6, 10, 14), 0.2),)}, ["group of ranks 2, 6, 10, 14"],
    ),
    "a switch": (
        {"ranks": 16, "per_host": 2, "style": "ring", "host_name": racks, "share": of(2, 4)},
        ["all 2 of switch 2 (ranks 8-11):"],
    ),
    "two pairs": (
        {"ranks": 8, "pipeline": 8, "share": both(way(1, 2, 0.2), way(6, 5))}, ["rank 1 -> 2:", "rank 6 -> 5:"],
    ),
    "two groups": (
        {"ranks": 32, "tensor": 4, "slow": ((range(4, 8), 0.3), (range(20, 24), 0.2))},
        ["group of ranks 20-23", "group of ranks 4-7"],
    ),
    "a pair, with jitter": (
        {"ranks": 8, "pipeline": 8, "jitter": 0.2, "share": way(2, 3, 0.15), "steps": 8}, ["rank 2 -> 3:"],
    ),
    "a pair of hosts without names": (
        {"ranks": 16, "per_host": 4, "pipeline": 4, "hosts": False, "share": of(2, 4)},
        ["all 16 of host 2 (ranks 8-11):"],
    ),
}  # fmt: skip
"""What is slow -> the job, and how the first lines name it."""

SOUND: Mapping[str, dict[str, Any]] = {
    "jitter": {"ranks": 16, "tensor": 4, "jitter": 0.3},
    "a pipeline with jitter": {"ranks": 16, "pipeline": 4, "tensor": 2, "jitter": 0.3},
    "a pipeline over hosts": {"ranks": 16, "pipeline": 8, "per_host": 4},
    "groups within and between hosts": {"ranks": 16, "tensor": 2, "per_host": 4, "style": "fsdp"},
    "experts": {"ranks": 16, "tensor": 2, "style": "moe", "jitter": 0.1},
    "a ring": {"ranks": 16, "per_host": 8, "style": "ring", "jitter": 0.1},
    "a slow stage": {"ranks": 8, "pipeline": 4, "stage_factor": {2: 2.0}},
    "slow ranks": {"ranks": 16, "tensor": 4, "biases": {5: 0.3, 11: 0.2}},
    "missing ranks": {"ranks": 16, "tensor": 4, "missing": (3, 6)},
    "one step": {"ranks": 16, "tensor": 2, "steps": 1, "jitter": 0.3},
}


def ranks_of(job: Job, folder: Path) -> Ranks:
    traces = tlg.load_set(str(write(job, folder)))
    return Ranks(traces, whole=traces)


@pytest.mark.parametrize("name", PLANTED)
def test_a_slow_link_is_named_first(name: str, tmp_path: Path) -> None:
    job, expected = PLANTED[name]
    ranks = ranks_of(Job(**job), tmp_path)
    assert len(ranks.slow_links) == len(expected)
    for line, words in zip(late_lines(ranks), expected, strict=False):
        assert line.startswith("slow link")
        assert words in line
    slow = [row for row in ranks.table("rank_links").records() if row["verdict"] == "slow"]
    assert all(row["times_slower"] > 1.25 and row["excess_ms"] > 0 for row in slow)


@pytest.mark.filterwarnings("ignore:ranks:UserWarning")
@pytest.mark.parametrize("name", SOUND)
def test_sound_links_are_not_called_slow(name: str, tmp_path: Path) -> None:
    ranks = ranks_of(Job(**SOUND[name]), tmp_path)
    assert not ranks.slow_links
    assert {row["verdict"] for row in ranks.table("rank_links").records()} <= {""}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"nodes": 2}, "no group but ranks 0-7"),
        ({"nodes": 2, "tensor_parallel": 4}, "all groups cross the same hosts"),
        ({"nodes": 4, "tensor_parallel": 2, "slow_link_rank": 3, "slow_link_factor": 4.0}, ""),
    ],
)
def test_links_that_cannot_be_compared_are_named_where_communication_is_most(
    settings: dict[str, Any], words: str
) -> None:
    ranks = Ranks(simulated_job(ranks=8, network_gb_per_s=5.0, **settings).traces)
    lines = [line for line in late_lines(ranks) if "could not be compared" in line]
    assert (len(lines), words in "".join(lines)) == (bool(words), True)


def test_a_link_with_too_few_collectives_may_be_slow(tmp_path: Path) -> None:
    slow = {
        "ranks": 16, "per_host": 16, "tensor": 4, "style": "moe", "steps": 1, "layers": 1,
        "slow": (((1, 5, 9, 13), 0.15),),
    }  # fmt: skip
    ranks = ranks_of(Job(**slow), tmp_path / "slow")
    assert not ranks.slow_links
    (line,) = ranks.link_lines
    assert line.startswith("not judged: group of ranks 1, 5, 9, 13")
    sound = ranks_of(Job(**slow | {"slow": ()}), tmp_path / "sound")
    assert not any("not judged" in line for line in sound.link_lines)


def test_links_keep_their_names_in_narrow_terminals() -> None:
    job = Ranks(simulated_job(ranks=8, tensor_parallel=2, nodes=4).traces)
    table = job.table("rank_links")
    lines = with_headings(table).text(80).splitlines()
    rows = lines[lines.index(next(line for line in lines if line.startswith("--"))) + 1 :][: len(table)]
    shown = {row[7:23].strip() for row in rows}
    assert {"0,1 mesh_tp", "1,3,5,7 mesh_dp", "0-7 default_pg", "hosts 0-3"} <= shown
    assert len(shown) == len(set(table["link"]))


def test_pictures_show_pairs_and_mark_slow_ones(tmp_path: Path) -> None:
    ranks = ranks_of(Job(ranks=8, pipeline=8, steps=3, share=way(5, 4)), tmp_path)
    matrix = PairMatrix.of(ranks)
    names = [ranks.matched.ranks[place].rank for place in matrix.ranks]
    assert names == list(range(8))
    pairs = {(names[row], names[column]): link for row, column, link in matrix.pairs}
    assert set(pairs) == {(one, one + way) for one in range(8) for way in (1, -1) if 0 <= one + way < 8}
    assert [ends for ends, link in pairs.items() if link.is_slow] == [(5, 4)]
    points = BandwidthPoints.of(ranks).kinds["send"]
    assert {row["link"] for row in points if row["is_slow"]} == {"rank 5 -> 4"}
    body = read(ranks_page(ranks, "job")).body["bandwidths"]
    assert [cell[:2] for cell in body["pairs"]["cells"] if cell[-1]] == [[5, 4]]
    assert sum(body["kinds"][0]["slow"]) == 12
    assert any(one.title == "Bandwidth from rank to rank" and one.draw for one in drawings(ranks))


def test_ends_and_groups_of_collectives(tmp_path: Path) -> None:
    rows = ranks_of(Job(ranks=8, tensor=2, pipeline=2, steps=1), tmp_path).table("rank_collectives").records()
    sends = {(row["source_rank"], row["target_rank"]) for row in rows if row["kind"] == "send"}
    assert sends == {(one, one + 4) for one in range(4)} | {(one + 4, one) for one in range(4)}
    groups = {row["group_ranks"] for row in rows if row["source_rank"] is None}
    assert {"[0, 1]", "[6, 7]", "[0, 2]", "[0, 1, 2, 3, 4, 5, 6, 7]"} < groups


def test_a_rank_behind_a_slow_link_is_not_late(tmp_path: Path) -> None:
    slow = ranks_of(Job(ranks=16, tensor=4, slow=((range(4, 8), 0.1),), jitter=0.003), tmp_path / "slow")
    assert slow.delays.delay_ns.max() > 500_000
    assert slow.lateness is not None
    assert slow.lateness.late is None


def test_delays_are_those_of_the_same_job_without_the_slow_link(tmp_path: Path) -> None:
    made = {"ranks": 8, "style": "ring", "steps": 2, "jitter": 0.0}
    slow = ranks_of(Job(**made, share=way(2, 3)), tmp_path / "slow")
    sound = ranks_of(Job(**made), tmp_path / "sound").matched
    matched = slow.matched
    sends = matched.parts.is_transfer
    later = matched.start_ns[sends] - sound.start_ns[sound.parts.is_transfer]
    first = matched.start_ns[sends] < 0.4 * matched.start_ns.max()  # before the gradients of the slow ring meet
    assert abs(slow.delays.delay_ns[sends][first] - later[first]).max() < 5_000
    assert later[first].max() > 50_000


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("a tensor-parallel group", "4-7"),
        ("a data-parallel group", "1,5,9,13"),
        ("a host of a ring", "host1"),
        ("a pair of a ring", "2->3"),
        ("a pair of a pipeline", "3,4"),
        ("one way of a pipeline", "5->4"),
        ("a host of a pipeline", "host2"),
        ("a rank", "rank6"),
        ("a switch", "switch2"),
    ],
)
def test_a_hint_asks_what_a_slow_link_costs(name: str, edit: str, tmp_path: Path) -> None:
    made = PLANTED[name][0]
    job = ranks_of(Job(**made | {"jitter": 0.0}), tmp_path / "slow")
    hint = next(line for line in Asked([str(tmp_path)], WindowChoice()).below_screen(job) if "bandwidth=" in line)
    asked = shlex.split(hint)[-1].removeprefix("bandwidth=")
    assert asked.rpartition(":")[0] == edit
    traces = tlg.load_set(str(tmp_path / "slow"))
    sound = tlg.load_set(str(write(Job(**{**made, "jitter": 0.0, "slow": (), "share": NO_SHARE}), tmp_path / "sound")))
    found = tlg.what_if(traces, bandwidth={edit: float(asked.rpartition(":")[2])})
    truth = tlg.critical_path(sound).length_ns
    assert found.least_ns * 0.999 <= truth <= found.most_ns * 1.001
    if name != "a tensor-parallel group":  # all its messages are of one size, so that its latency is not known
        assert found.saved_ns == pytest.approx(found.path.length_ns - truth, rel=0.05)


RING: dict[str, Any] = {"ranks": 4, "style": "ring", "steps": 2, "layers": 2, "jitter": 0.0}


def test_what_a_slow_pair_adds_counts_the_rings_that_it_bounds(tmp_path: Path) -> None:
    """The all-reduce of all ranks is as slow as the pair, and has most of what the pair costs."""
    slow, sound = (
        ranks_of(Job(**RING, share=share), tmp_path / str(at)) for at, share in enumerate((way(1, 2, 0.1), NO_SHARE))
    )
    (found,) = slow.slow_links
    cost = slow.figures.matched.last_end_ns.max() - sound.figures.matched.last_end_ns.max()
    assert 2 * sum(one.excess_ns for one in found.links) < cost < found.excess_ns * 1.02
    assert {len(one.link.places) for one in found.rings} == {4}
    assert found.rings[0].factor == pytest.approx(10, rel=0.1)


def test_two_slow_pairs_of_a_ring_bound_it_together(tmp_path: Path) -> None:
    ranks = ranks_of(Job(**RING | {"ranks": 6}, share=both(way(1, 2, 0.1), way(4, 5, 0.1))), tmp_path)
    assert [bool(one.rings) for one in ranks.slow_links] == [True, True]
    both_ways = tlg.what_if(tlg.load_set(str(tmp_path)), bandwidth={"1->2": 10.0, "4->5": 10.0})
    alone = tlg.what_if(tlg.load_set(str(tmp_path)), bandwidth={"1->2": 10.0})
    assert both_ways.saved_ns > 3 * alone.saved_ns


def test_whether_a_ring_passes_a_pair_that_is_as_fast_as_all_others_is_not_known(tmp_path: Path) -> None:
    ranks = tlg.load_set(str(write(Job(**RING, gb_s=20.0), tmp_path / "sound")))
    found = tlg.what_if(ranks, bandwidth={"1->2": 0.5})
    slower = tlg.load_set(str(write(Job(**RING, gb_s=20.0, share=way(1, 2, 0.5)), tmp_path / "slow")))
    truth = tlg.critical_path(slower).length_ns
    assert found.changed_ns == pytest.approx(truth, rel=0.01)
    assert found.least_ns < (found.path.length_ns + truth) / 2 < truth <= found.most_ns * 1.005


@pytest.mark.parametrize("style", ["ddp", "fsdp", "moe"])
def test_nobody_is_named_for_a_switch_that_all_groups_cross(style: str, tmp_path: Path) -> None:
    job = Job(ranks=16, tensor=8, per_host=4, host_name=racks, style=style, share=of(1, 8, 0.1))
    assert [line for line in late_lines(ranks_of(job, tmp_path)) if line.startswith("late:")] == []


@pytest.mark.parametrize("name", ["a host of a ring", "one of several rings", "a switch"])
def test_ranks_behind_links_between_hosts_are_not_late(name: str, tmp_path: Path) -> None:
    ranks = ranks_of(Job(**PLANTED[name][0]), tmp_path)
    assert [line for line in late_lines(ranks) if line.startswith("late:")] == []
    _, recorded_ns = ranks.figures.held_up_ns
    assert ranks.delays.held_up_ns[1].sum() < 0.3 * recorded_ns.sum()


def test_nobody_holds_up_who_waits_for_a_slow_link() -> None:
    traces = simulated_job(ranks=8, tensor_parallel=2, nodes=4, slow_link_rank=3, slow_link_factor=4.0).traces
    ranks = Ranks(traces, whole=traces)
    last, later_ns = ranks.figures.held_up_ns
    assert later_ns[last == 2].sum() > 5e6  # as recorded
    assert max(ranks.table("rank_balance")["held_up_ms"]) < 0.3
    assert WaitMap.of(ranks).all_held_up_ms.max() < 0.3
