"""Tracks beside a trace: what they hold, that they nest, and that the trace itself stays what it was."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import small_trace, span
from lockstep import two_ranks
from rank_traces import collective, job, kernel

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.idle.idle import idle_parts
from tracelens_graph.analyses.ranks.matched_collectives import APART, MatchedCollectives
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loaders.kineto.times import origin_ns
from tracelens_graph.loading.one import load_core
from tracelens_graph.output.files import GENERATOR
from tracelens_graph.reports import tracks as module
from tracelens_graph.reports.tracks import CATEGORY, PATH, JobTracks, Slice, Track, counters, track_entries, tracks
from tracelens_graph.stores.cut import entries, whole, write_entries

GPU = {"device": 0, "stream": 7}


def by_title(core: Core) -> dict[str, Track]:
    return {track.title: track for track in tracks(core.everything)}


def written(core: Core) -> bytes:
    """The file as `export -f perfetto` writes it."""
    found = [*tracks(core.everything), *counters(core.everything)]
    ours = track_entries(core.everything, found, origin_ns(core))
    file = io.BytesIO()
    top = {**core.info.metadata, "generator": GENERATOR}
    write_entries([*entries(whole(core)), *ours], top, file, packed=False)
    return file.getvalue()


def assert_nested(slices: list[tuple[int, int]]) -> None:
    """Slices, as begin and end, in the order of the file, are within one another or apart."""
    open_ends: list[int] = []
    before = -(2**63)
    for begin, end in slices:
        assert before <= begin <= end
        before = begin
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1]
        open_ends.append(end)


def test_counters_beside_the_trace() -> None:
    core = load_core([
        span("cuda_runtime", "cudaLaunchKernel", 1000, 2, correlation=1),
        span("cuda_runtime", "cudaMemcpyAsync", 1003, 2, correlation=2),
        span("kernel", "k", 1010, 10, 0, 7, correlation=1, **GPU),
        span("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1020, 4, 0, 7, bytes=8000, correlation=2, **GPU),
    ])  # fmt: skip
    found: dict[str, list[tuple[float, dict[str, float]]]] = defaultdict(list)
    for entry in json.loads(written(core))["traceEvents"]:
        if entry["ph"] == "C":
            assert entry["cat"] == CATEGORY
            found[entry["name"]].append((entry["ts"], entry["args"]))
    assert found == {
        "GPU 0 stream 7 queue": [
            (at, {"launched": level}) for at, level in ((1000, 1), (1003, 2), (1010, 1), (1020, 0))
        ],
        "GPU 0 HtoD bandwidth": [(1020, {"GB/s": 2.0}), (1024, {"GB/s": 0.0})],
    }


def test_slices_of_a_small_trace() -> None:
    found = by_title(load_core(small_trace()))
    lead = 1_000_000  # the step begins at 1,000 us
    told = {
        title: [(one.name, one.start_ns + lead, one.dur_ns) for one in track.slices] for title, track in found.items()
    }
    assert told["GPU 0 stream 7 by module and op"] == [
        ("(no launch in trace)", 1_001_000, 30_000),
        ("forward", 1_100_000, 50_250),
        ("Linear_0", 1_100_000, 50_250),
        ("aten::addmm", 1_100_000, 50_250),
    ]
    assert [name for name, *_ in told["GPU 0 stream 8 by module and op"]] == ["forward", "Linear_0", "aten::addmm"]
    ((cause, start, length),) = told["GPU 0 idle, by cause"]
    assert (start, length) == (1_031_000, 69_000)
    op = found["GPU 0 stream 7 by module and op"].slices[3]
    assert op.args == {"gpu_events": 1, "gpu_us": 50.25, "uid": 6}
    idle = found["GPU 0 idle, by cause"].slices[0].args
    assert sum(value for name, value in idle.items() if name.endswith("_us")) == 69.0
    assert f"{cause.replace(' ', '_')}_us" in idle
    assert idle["uid_behind"] == 9


def test_runs_of_one_op_are_one_slice_and_end_where_the_next_begins() -> None:
    events = [span("cpu_op", "a", 0, 50), span("cpu_op", "b", 60, 20)]
    for at, (launch, start, dur) in enumerate([(1, 100, 10), (5, 120, 10), (61, 140, 30), (65, 165, 10)], 1):
        events.append(span("cuda_runtime", "cudaLaunchKernel", launch, 2, correlation=at))
        events.append(span("kernel", "k", start, dur, 0, 7, correlation=at, **GPU))
    track = by_title(load_core(events))["GPU 0 stream 7 by module and op"]
    ops = [one for one in track.slices if one.name in "ab"]
    assert [(one.name, one.start_ns, one.dur_ns, one.args["gpu_events"]) for one in ops] == [
        ("a", 100_000, 30_000, 2),
        ("b", 140_000, 35_000, 2),
    ]
    assert ops[1].args["gpu_us"] == 40.0  # time of events is not cut


def test_modules_beyond_the_deepest_level_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [span("python_function", f"nn.Module: M_{at}", 10 + at, 1000 - 2 * at) for at in range(9)]
    events += [
        span("cuda_runtime", "cudaLaunchKernel", 100, 5, correlation=1),
        span("kernel", "k", 200, 3, 0, 7, correlation=1, **GPU),
    ]
    monkeypatch.setattr(module, "DEEPEST", 3)
    slices = by_title(load_core(events))["GPU 0 stream 7 by module and op"].slices
    assert [one.name for one in slices] == ["forward", "M_0", "M_1", "M_2"]


def test_the_process_of_the_tracks_is_nobody_elses() -> None:
    trace = small_trace()
    trace["traceEvents"][0]["pid"] = 1_000_000
    core = load_core(trace)
    found = [json.loads(one) for one in track_entries(core.everything, tracks(core.everything), 0)]
    assert {one["pid"] for one in found} == {1_000_001}


def test_what_a_trace_says_of_itself_breaks_no_track() -> None:
    said = {"Process Group Name": "\ud800\x1b", "Seq": 10**30, "In msg nelems": 10**25, "dtype": "Float\0"}
    events = [
        span("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL()\ud800", 100 * at, 10, 0, 7, correlation=at, **GPU)
        for at in (1, 2)
    ]
    for event in events:
        event["args"] |= said | {"Collective name": "all\ud800reduce"}
    core = load_core(events)
    found = tracks(core.everything)
    texts = [one.decode() for one in track_entries(core.everything, found, 0)]
    assert any(track.title.startswith("collectives") for track in found)
    assert not any("\x1b" in text or "\\u001b" in text for text in texts)
    assert all(json.loads(text) for text in texts)


def test_without_gpu_events_there_are_no_tracks() -> None:
    assert tracks(load_core([span("cpu_op", "aten::mm", 1, 2)]).everything) == []


@parametrize("path", chosen_traces())
def test_the_trace_stays_what_it_was(path: Path) -> None:
    before, after = loaded(path), load_core(json.loads(written(loaded(path))))
    assert len(before.columns) == len(after.columns)
    for name in ("kind", "start_ns", "dur_ns", "device", "stream", "correlation", "parent", "owner", "thread"):
        assert np.array_equal(getattr(before.columns, name), getattr(after.columns, name)), name
    names = ([core.names[code] for code in core.columns.name.tolist()] for core in (before, after))
    assert len(set(map(tuple, names))) == 1
    assert after.info.start_epoch_ns == before.info.start_epoch_ns
    assert after.info.lead_ns == before.info.lead_ns
    assert after.info.left_out.get(f"category {CATEGORY}", 0) == sum(
        len(one.slices) for one in tracks(before.everything)
    ) + sum(len(one.course.at) for one in counters(before.everything))


@parametrize("path", chosen_traces())
def test_tracks_of_real_traces(path: Path) -> None:
    core = loaded(path)
    found = [json.loads(one) for one in track_entries(core.everything, tracks(core.everything), 0)]
    lanes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        if one["ph"] == "X":
            lanes[one["tid"]].append(one)
    titles = {one["args"]["name"]: one["tid"] for one in found if one["name"] == "thread_name"}
    for slices in lanes.values():
        assert_nested([(at := round(1e3 * one["ts"]), at + round(1e3 * one["dur"])) for one in slices])
    c, gpu = core.columns, core.gpu_rows
    if not len(gpu):
        assert all(title.startswith("collectives") for title in titles)
        return
    path_ns = sum(round(1e3 * one["dur"]) for one in lanes[titles["critical path"]])
    assert path_ns == critical_path(core).length_ns
    idle_ns = [sum(round(1e3 * one["dur"]) for one in lanes[at]) for title, at in titles.items() if "idle" in title]
    idle = idle_parts(core)
    assert sum(idle_ns) == int((idle.end - idle.start).sum())
    streams = [title for title in titles if title.endswith("by module and op")]
    assert len(streams) == len({(d, s) for d, s in zip(c.device[gpu].tolist(), c.stream[gpu].tolist(), strict=True)})
    outermost = {"forward", "backward", "(no module)", "(optimizer)", "(no launch in trace)"}
    spent = Counter[str]()
    for title in streams:
        for one in lanes[titles[title]]:
            spent["outermost" if one["name"] in outermost else "inner"] += round(1e3 * one["args"]["gpu_us"])
    assert spent["outermost"] == int(c.dur_ns[gpu].sum())


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
