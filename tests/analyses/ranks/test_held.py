"""Collectives of a rank as columns: nothing is lost on the way, and what ranks share is held once."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
from made_jobs import collective

from tracelens_graph.analyses.ranks.held import Entry, Forms, Held
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.rank_collectives import GpuTime, RankCollectives, ReadRank
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.deferred import Deferred
from tracelens_graph.graph.window import Window, narrow, whole_window
from tracelens_graph.loading import again, many
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.simulate import simulate, write


def entries(seed: int, count: int = 40) -> list[Entry]:
    rng = random.Random(seed)
    found = []
    for at in range(count):
        sequence = rng.choice([None, at, 7 * at])
        end = rng.choice([f"#{at}", str(sequence), "other"])
        rows = tuple(range(at, at + rng.randrange(1, 4)))
        one = collective(
            sequence, rng.choice(["allreduce", "send"]), rng.choice([None, 64, 1024]), index=at,
            key=f"coll:{rng.randrange(3)}:-:{end}", rank=rng.choice([None, 3]),
            ranks=rng.choice([None, tuple(range(4))]), rows=rows, uids=tuple(2 * row for row in rows),
            start_ns=at, end_ns=at + 5,
            source_rank=rng.choice([None, 1]), on_host=rng.random() < 0.3,
        )  # fmt: skip
        found.append((one, at + rng.randrange(2), at + 5))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_columns_give_back_what_they_were_made_of(seed: int) -> None:
    given = entries(seed)
    held = pickle.loads(pickle.dumps(Held.of(given)))
    assert list(held) == given
    assert held[3:9] == tuple(given[3:9])
    assert held[-1] == given[-1]
    assert [held.kernels(at) for at in range(len(held))] == [one.rows for one, _, _ in given]
    known = Forms()
    assert list(known.shared(held)) == given
    again = known.shared(Held.of(entries(seed)))
    assert {id(form) for form in again.forms} <= {id(form) for form in known.forms}
    assert list(Held.of([])) == []


@pytest.mark.parametrize("late", [0, 2**40])
def test_times_of_the_gpu_are_packed_without_loss(late: int) -> None:
    edges = np.cumsum(np.random.default_rng(0).integers(1, 10_000, 2000)).reshape(-1, 2) + late
    times = (edges[:, 0], edges[:, 1])
    packed = GpuTime(times, (times[0][:1], times[1][:1]))
    assert np.array_equal(packed.busy, times)
    assert np.array_equal(packed.computing, (times[0][:1], times[1][:1]))
    assert [len(one) for one in packed.communicating] == [0, 0]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("job")
    run = simulate(ranks=4, steps=3, layers=1, late_rank=2, late_us=5000.0, python_stacks=False)
    write(run, folder, traces_only=True)
    return trace_files([str(folder)])


@pytest.mark.parametrize("spilled", [0, 2**40])
def test_ranks_that_are_read_again_give_the_same_tables(
    job: list[str], monkeypatch: pytest.MonkeyPatch, spilled: int
) -> None:
    monkeypatch.setattr(many, "SPILLED_BYTES", spilled)
    monkeypatch.setattr(again, "AGAIN_BYTES", 0)
    whole, reads = load_core_set(job), ReadRank()
    deferred = load_core_set(job, leaves=reads, processes=2)
    assert all(isinstance(one.graph, Deferred) for one in deferred)
    found, expected = Job(reads.parts_of(deferred), whole=deferred), Job(whole, whole=whole)
    assert {name: table.records() for name, table in found.tables().items()} == {
        name: table.records() for name, table in expected.tables().items()
    }
    assert found.table("late_ranks")["rank"][0] == 2
    assert found.lateness == expected.lateness
    assert [one.core.equals(other.core) for one, other in zip(deferred, whole, strict=True)] == [True] * 4


def test_a_part_has_the_clocks_of_the_whole(job: list[str]) -> None:
    whole = load_core_set(job)
    reads = ReadRank(_second_step)
    deferred = load_core_set(job, leaves=reads, processes=2)
    found = Job(reads.parts_of(deferred), whole=deferred)
    expected = Job(whole.narrowed(step=4), whole=whole)
    assert found.table("late_arrivals").records() == expected.table("late_arrivals").records()
    assert found.table("rank_balance").records() == expected.table("rank_balance").records()
    assert np.array_equal(found.matched.clocks.offset_ns, expected.matched.clocks.offset_ns)
    reads = ReadRank(_no_step)
    assert all("99" in one.lacks for one in reads.parts_of(load_core_set(job, leaves=reads, processes=2)))


def _second_step(core: Core) -> Window:
    return narrow(whole_window(core), step=4)


def _no_step(core: Core) -> Window:
    return narrow(whole_window(core), step=99)


def test_what_a_rank_leaves_is_a_fraction_of_its_graph(job: list[str]) -> None:
    (one, *_) = load_core_set(job)
    left = ReadRank()(one.core)
    assert left is not None
    assert isinstance(left[0], RankCollectives)
    assert len(pickle.dumps(left)) < 0.05 * one.core.columns.nbytes
