"""What the ranks of a job tell of one another, as slices of tracks."""

from __future__ import annotations

import numpy as np
import pytest
from lockstep import two_ranks
from rank_traces import collective, job, kernel

from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.ranks.matched_collectives import APART, MatchedCollectives
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.reports.rank_tracks import PATH, JobTracks
from tracelens_graph.reports.tracks import Slice, Track, tracks

US = 1_000


def job_tracks(traces: TraceSet) -> JobTracks:
    return JobTracks(traces, MatchedCollectives(traces))


def shown(track: Track) -> list[tuple[str, float, float]]:
    return [(one.name, one.start_ns / US, one.dur_ns / US) for one in track.slices]


def collectives(traces: TraceSet, place: int) -> list[Slice]:
    found = tracks(traces[place].window, job_tracks(traces).of(place, is_alone=False))
    (track,) = [one for one in found if one.title.startswith("collectives")]
    return track.slices


def test_waiting_is_split_from_communication() -> None:
    traces = job({0: [collective(100, 100)], 1: [kernel(0, 10), collective(150, 50)]})
    first, second = ([(one.name, one.dur_ns / US) for one in collectives(traces, place)] for place in (0, 1))
    assert first == [("allreduce", 100.0), ("waiting for rank 1", 50.0), ("communicating", 50.0)]
    assert second == [("allreduce", 50.0), ("communicating", 50.0)]
    told = collectives(traces, 0)[0].args
    assert {name: told[name] for name in ("collective", "came_last", "wait_us", "communication_us", "ranks")} == {
        "collective": 0, "came_last": "rank 1", "wait_us": 50.0, "communication_us": 50.0, "ranks": 2,
    }  # fmt: skip


def test_who_leaves_later_than_the_first() -> None:
    traces = job({0: [collective(100, 100, "broadcast")], 1: [collective(120, 20, "broadcast")]})
    assert shown(Track("", collectives(traces, 0))) == [
        ("broadcast", 0.0, 100.0), ("waiting for rank 1", 0.0, 20.0), ("communicating", 20.0, 20.0),
        ("others are done", 40.0, 60.0),
    ]  # fmt: skip


def test_what_was_not_matched_says_why() -> None:
    traces = job({0: [collective(0, 10), collective(100, 10)], 1: [collective(0, 10), collective(90_000, 10)]})
    whole, part, lone = collectives(traces, 0)
    assert (whole.name, part.name, lone.name) == ("allreduce", "communicating", "allreduce")
    assert lone.args["not_matched"]
    assert lone.args["not_matched"] in (APART, "no other rank has it") or "ends within" in lone.args["not_matched"]
    assert "wait_us" not in lone.args


def test_stretches_end_where_the_slice_is_cut() -> None:
    """Kernels of several streams of one collective may reach into the next; what is drawn does not."""
    events = [collective(100, 100, sequence=1), collective(150, 100, sequence=2)]
    traces = job({0: events, 1: [collective(180, 20, sequence=1), collective(210, 40, sequence=2)]})
    slices = collectives(traces, 0)
    assert [(one.name, one.dur_ns / US) for one in slices[:2]] == [("allreduce", 50.0), ("waiting for rank 1", 50.0)]
    assert slices[1].args["us"] == 80.0
    assert slices[2].start_ns == slices[0].start_ns + slices[0].dur_ns


def test_the_path_of_the_job() -> None:
    traces = two_ranks()
    told, path = job_tracks(traces), critical_path(two_ranks())
    whole = told.path()
    assert whole.title == PATH
    assert sum(one.dur_ns for one in whole.slices) == path.length_ns
    assert {one.name.partition(":")[0] for one in whole.slices} <= {"rank 0", "rank 1"}
    parts = [told.of(place, is_alone=False).path.slices for place in (0, 1)]
    assert sum(one.dur_ns for part in parts for one in part) == path.length_ns
    assert all(one.args["rank"] == place for place, part in enumerate(parts) for one in part)
    alone = told.of(1, is_alone=True).path.slices
    assert sum(one.dur_ns for one in alone) == path.length_ns
    assert all(one.name.startswith("rank 0: ") == (one.args["rank"] == 0) for one in alone)


def test_a_path_lies_on_the_clock_of_the_rank() -> None:
    traces = two_ranks()
    late = TraceSet(
        [traces[0], type(traces[1])(traces[1].graph, "rank1", rank=1, clock_ns=(traces[0].clock_ns or 0) + 5_000_000)]
    )
    told = job_tracks(late)
    own = [one for one in told.of(1, is_alone=False).path.slices if one.args["class"] == "computation"]
    product = late[1].core
    (row,) = [row for row in product.gpu_rows.tolist() if product.names[product.columns.name[row]] == "gemm"]
    assert all(one.start_ns >= 0 for one in own)
    assert any(one.start_ns == product.columns.start_ns[row] for one in own) or not own


@pytest.mark.parametrize("place", [0, 1])
def test_the_common_clock_there_and_back(place: int) -> None:
    matched = MatchedCollectives(two_ranks())
    times = np.array([0, 17, 10**9, -5], np.int64)
    assert matched.own_ns(place, matched.clock_ns(place, times)).tolist() == times.tolist()


def test_ranks_without_gpu_work_have_no_path() -> None:
    from handmade import span

    traces = job({0: [span("cpu_op", "a", 0, 5)], 1: [span("cpu_op", "a", 0, 5)]})
    told = job_tracks(traces)
    assert told.path().slices == []
    assert tracks(traces[0].window, told.of(0, is_alone=True)) == []
