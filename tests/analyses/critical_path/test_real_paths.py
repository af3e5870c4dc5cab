"""Paths of real traces: against HTA's where these are right, and over the eight ranks of one job."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from corpus import loaded
from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.critical_path import causes_of, critical_path
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.critical_path.what_if import what_if
from tracelens_graph.graph.trace_set import TraceSet

END = (Role.gpu_end, Role.returned)


@pytest.fixture
def event_sync(corpus: Path) -> Causes:
    return causes_of(loaded(corpus / "hta/critical-path/event-sync.json.gz"))


def points_of(known: Causes, points: list[int]) -> list[tuple[int, str]]:
    """uid and which end of it, of points."""
    core = known.core(0)
    return [(int(core.columns.uid[known.row[at]]), "end" if known.role[at] in END else "start") for at in points]


def test_event_sync_runs_as_hta_says(event_sync: Causes, goldens: Path) -> None:
    """From the first launch on every point of the path is one of HTA's, in its order.

    But for a copy to pageable memory: its call returns when the copy has ended, so the path runs through that. HTA
    takes the time for the host's. It also weighs much of the time that it spans as nothing, so lengths are no measure.
    """
    with (goldens / "hta/event-sync/critical_path_all_0_rank0.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    theirs = [(int(row["to_event"]), row["to_at"]) for row in rows]
    known = event_sync
    # HTA's path goes on to the last call of the step; ours to the last GPU end, so it is followed from that call back.
    synchronized = known.core(0).row(41)
    at = int(np.flatnonzero((known.role == Role.returned) & (known.row == synchronized))[0])
    walked = [at]
    while (edge := int(known.binding[walked[-1]])) >= 0:
        walked.append(int(known.before[edge]))
    ours = points_of(known, walked[::-1])
    launched = ours.index((13, "start"))
    copy = [(23, "start"), (23, "end")]
    places = [theirs.index(point) for point in ours[launched:] if point not in copy]
    assert places == sorted(places)
    assert [point for point in ours if point in copy] == copy
    gpu_edges = [(row["edge_type"], int(row["from_event"]), int(row["to_event"])) for row in rows
                 if row["edge_type"] in ("KERNEL_LAUNCH_DELAY", "SYNC_DEPENDENCY")]  # fmt: skip
    assert gpu_edges == [("KERNEL_LAUNCH_DELAY", 35, 33), ("SYNC_DEPENDENCY", 33, 41)]
    assert ours[-4:] == [(35, "start"), (33, "start"), (33, "end"), (41, "end")]


def test_backward_thread_is_as_long_as_hta_says(corpus: Path) -> None:
    """Weight and span are one there: 64,232 us, of which 64,135 a launch."""
    path = critical_path(loaded(corpus / "hta/backward-thread.json.gz"))
    assert path.length_ns == 64_232_000
    assert path.ns_by_class == {"host": 52_000, "launch": 64_135_000, "computation": 45_000}


def test_event_sync_multi_stream_ends_on_the_stream_that_waited(corpus: Path) -> None:
    path = critical_path(loaded(corpus / "hta/critical-path/event-sync-multi-stream.json.gz"))
    assert path.length_ns == 19_917_000  # HTA's span
    table = path.segments()
    assert list(table["uid"])[-2:] == [92, 90]
    assert not any("inferred" in note for note in path.notes)


def test_old_rows_of_simple_add(corpus: Path) -> None:
    """Its rows do not tell the records that streams wait for, and Context Sync is on stream 4294967295."""
    known = causes_of(loaded(corpus / "hta/critical-path/simple-add.json.gz"))
    bound = known.kind[known.binding[known.binding >= 0]]
    assert {Edge.event, Edge.sync} <= {Edge(one) for one in bound.tolist()}
    assert not any("inferred" in note for note in known.notes)


def test_eight_ranks_of_dlrm(corpus: Path) -> None:
    """8 collectives of 8 ranks; rank 7 is mostly the last to come, so the path runs over it."""
    files = sorted((corpus / "dlrm-8-ranks/kineto").glob("*.json.gz"))
    known = causes_of(TraceSet.of([loaded(file) for file in files]))
    assert (known.role == Role.meeting).sum() == 8
    assert not known.negative
    last = known.ordinal[known.role == Role.meeting]
    assert np.bincount(last, minlength=8).tolist() == [0, 0, 0, 0, 1, 2, 0, 5]
    path = critical_path(known)
    assert 7 in path.ranks()["rank"]
    assert path.length_ns == sum(path.ns_by_class.values())
    assert any("are inferred from the order of calls" in note for note in path.notes)
    faster = what_if(known, collectives=2.0)
    assert 0 <= faster.saved_ns <= path.ns_by_class["communication"]
