"""In a piece cut out of a trace every event is whole and has the place that it has in the trace."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
import zstandard
from handmade import small_trace, span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import kineto_traces, loaded, parametrize, parametrize_all
from tracelens_graph.errors import AnalysisError, ChangedTraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.output.files import GENERATOR
from tracelens_graph.schema import Flag, Kind
from tracelens_graph.stores.cut import Piece, piece_around, piece_between, write_piece
from tracelens_graph.stores.graph_file import write_graph

AS_RECORDED = (
    "kind", "dur_ns", "external_id", "correlation", "device", "stream", "bytes", "sequence", "forward_thread",
    "owner_rule", "depth",
)  # fmt: skip


def written(piece: Piece) -> bytes:
    file = io.BytesIO()
    count = write_piece(piece, file, packed=False)
    assert count == len(json.loads(file.getvalue())["traceEvents"])
    return file.getvalue()


def around(core: Core, uid: int, margin_ns: int = 0) -> list[dict[str, Any]]:
    """The entries of the piece around a node."""
    found: list[dict[str, Any]] = json.loads(written(piece_around(core, [core.row(uid)], margin_ns)))["traceEvents"]
    return found


def positions(trace: dict[str, Any], entries: list[dict[str, Any]]) -> list[int]:
    """Where the entries stand in the whole trace."""
    return [trace["traceEvents"].index(entry) for entry in entries]


def assert_same_places(piece: Piece, small: Core) -> None:
    """The nodes of the piece are in `small`, its graph, in the same order, as recorded and with the same relatives."""
    core, c, s = piece.core, piece.core.columns, small.columns
    there = piece.rows[np.argsort(c.uid[piece.rows], kind="stable")]
    here = np.argsort(s.uid, kind="stable")
    assert len(here) == len(there)
    for name in AS_RECORDED:
        assert np.array_equal(getattr(c, name)[there], getattr(s, name)[here]), name
    earlier = core.info.start_epoch_ns - small.info.start_epoch_ns
    assert np.array_equal(c.start_ns[there] + earlier, s.start_ns[here])
    # What an event outlives beside its callers may be outside of the piece.
    assert not np.any((c.flags[there] ^ s.flags[here]) & ~np.uint8(Flag.outlives_parent))
    for what in ("names", "threads", "argsets"):
        code = what.removesuffix("s")
        for a, b in zip(getattr(c, code)[there].tolist(), getattr(s, code)[here].tolist(), strict=True):
            assert (a < 0 and b < 0) or getattr(core, what)[a] == getattr(small, what)[b]
    row_here = np.full(len(c) + 1, -2)
    row_here[there], row_here[-1] = here, -1
    for whole, part in ((c, s), (core, small)):
        for name in ("parent", "owner") if whole is c else ("step", "annotation"):
            assert np.array_equal(row_here[getattr(whole, name)[there]], getattr(part, name)[here]), name
    depends = row_here[core.depends_on]
    assert set(map(tuple, depends[(depends >= 0).all(axis=1)].tolist())) <= set(map(tuple, small.depends_on.tolist()))
    kept = {(int(c.thread[row]), int(c.start_ns[row])) for row in there[c.kind[there] == Kind.Op].tolist()}
    ends = [end for end in core.autograd_flows if (end[2], end[3]) in kept]
    joined = {key for phase, key, *_ in ends if phase == "s"} & {key for phase, key, *_ in ends if phase == "f"}
    expected = Counter((phase, key, core.threads[t], time + earlier) for phase, key, t, time in ends if key in joined)
    assert expected <= Counter((phase, key, small.threads[t], time) for phase, key, t, time in small.autograd_flows)


@parametrize_all("path", kineto_traces())
def test_pieces_of_real_traces_keep_every_place(path: Path) -> None:
    core = loaded(path)
    draw = random.Random(path.name)
    for margin in (0, draw.randrange(100_000), draw.randrange(3_000_000)):
        piece = piece_around(core, [draw.randrange(len(core.columns))], margin)
        text = written(piece)
        small = load_core(text)
        assert_same_places(piece, small)
        assert not small.info.damage
        assert small.info.metadata == {**core.info.metadata, "generator": GENERATOR}
        uids = np.sort(core.columns.uid[piece.rows]).tolist()
        originals = core.details.events(uids[:50])
        entries = json.loads(text)["traceEvents"]
        assert all(originals[uid] in entries for uid in originals)
        assert [name for name in core.info.threads if tuple(name[:2]) in small.threads] == [
            name for name in small.info.threads if tuple(name[:2]) in small.threads
        ]


@parametrize("path", [path for path in kineto_traces() if path.stat().st_size < 60_000])
def test_a_piece_that_is_everything_is_the_whole_graph(path: Path) -> None:
    core = loaded(path)
    piece = piece_between(core, 0, 2**60)
    assert len(piece.rows) == len(core.columns)
    small = load_core(written(piece))
    assert_same_places(piece, small)
    assert np.array_equal(core.columns.flags, small.columns.flags)


@given(trace=traces(), begin=st.integers(0, 70), length=st.integers(0, 30), pick=st.integers(0))
def test_pieces_of_made_traces_keep_every_place(trace: dict[str, Any], begin: int, length: int, pick: int) -> None:
    core = load_core(trace)
    if not len(core.columns):
        return
    try:
        pieces = [piece_between(core, begin, begin + length)]
    except AnalysisError:
        end = core.columns.end_ns
        assert not np.any((core.columns.start_ns <= begin + length) & (end >= begin))
        pieces = []
    for piece in [*pieces, piece_around(core, [pick % len(core.columns)], length)]:
        assert_same_places(piece, load_core(written(piece)))


def test_what_is_around_a_launch() -> None:
    trace = small_trace()
    entries = around(load_core(trace), 7)
    # Its callers, its kernel with the arrow to it, the step, what overlaps (the other thread, the span), and names;
    # not the copy and the ops that run before or after.
    assert positions(trace, entries) == [0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 16, 17]


def test_a_kernel_brings_its_launch_from_afar() -> None:
    trace = small_trace()
    entries = around(load_core(trace), 9)
    assert positions(trace, entries) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 17]


def test_margin_widens_on_both_sides() -> None:
    trace = small_trace()
    core = load_core(trace)
    assert 11 not in positions(trace, around(core, 10, 300_000))  # starts 1500 us, the copy ends 1160
    assert 11 in positions(trace, around(core, 10, 340_000))
    assert 13 not in positions(trace, around(core, 10, 100_000))  # ends 1031 us, the copy begins 1140
    assert 13 in positions(trace, around(core, 10, 109_000))


def test_a_step_brings_its_gpu_work_and_not_what_else_runs_then() -> None:
    gpu = {"device": 0, "stream": 7}
    trace = {
        "traceEvents": [
            span("user_annotation", "ProfilerStep#1", 0, 100),
            span("user_annotation", "ProfilerStep#2", 101, 100),
            span("cuda_runtime", "cudaLaunchKernel", 10, 5, tid=7, correlation=1),
            span("cuda_runtime", "cudaLaunchKernel", 150, 5, tid=7, correlation=2),
            span("kernel", "of the first", 500, 50, 0, 7, **gpu, correlation=1),
            span("kernel", "of the second", 560, 50, 0, 7, **gpu, correlation=2),
        ]
    }
    core = load_core(trace)
    [first, _] = core.steps()
    piece = piece_around(core, [first.row], 0)
    assert positions(trace, json.loads(written(piece))["traceEvents"]) == [0, 2, 4]
    assert positions(trace, around(core, 4)) == [0, 2, 4]


def test_arrows_have_both_ends_or_are_left_out() -> None:
    def end(phase: str, key: Any, tid: int, ts: float, cat: str = "fwdbwd") -> dict[str, Any]:
        return {"ph": phase, "cat": cat, "name": cat, "id": key, "pid": 1, "tid": tid, "ts": ts}

    trace = {
        "traceEvents": [
            span("python_function", "main", 0, 1000, 1, 1),
            span("cpu_op", "aten::mm", 100, 10, 1, 1),
            span("cpu_op", "MmBackward", 130, 10, 1, 2),
            span("cpu_op", "aten::add", 500, 10, 1, 1),
            end("s", 1, 1, 100), end("t", 1, 2, 130), end("f", 1, 2, 130),
            end("s", 2, 1, 100), end("f", 2, 2, 700),  # leads out
            end("s", 3, 1, 500), end("f", 3, 2, 130),  # comes from outside, below a frame that is inside
            end("s", 4, 1, 103), end("f", 4, 2, 135),  # within events, not at their starts
            end("s", 1, 1, 500, "other"), end("f", 1, 2, 130, "other"),
            end("s", 5, 9, 100), end("f", 5, 2, 130),  # from a thread without events
        ]
    }  # fmt: skip
    core = load_core(trace)
    piece = piece_between(core, 90_000, 200_000)
    assert positions(trace, json.loads(written(piece))["traceEvents"]) == [0, 1, 2, 4, 5, 6, 11, 12]


def test_launches_and_dependencies_that_only_arrows_tell_are_kept() -> None:
    def end(phase: str, key: int, pid: int, tid: int, ts: float) -> dict[str, Any]:
        return {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": key, "pid": pid, "tid": tid, "ts": ts}

    trace = {
        "traceEvents": [
            span("cpu_op", "aten::mm", 0, 30, 1, 1),
            span("hip_runtime", "hipLaunchKernel", 10, 10, 1, 1),
            span("kernel", "first", 100, 10, 0, 7),
            span("kernel", "second", 112, 10, 0, 8),
            span("kernel", "third", 300, 10, 0, 8),
            end("s", 1, 1, 1, 10), end("f", 1, 0, 7, 100),
            end("s", 2**40, 0, 7, 111), end("f", 2**40, 0, 8, 112),  # begins behind the end of the first
            end("s", 2**40 + 1, 0, 8, 122), end("f", 2**40 + 1, 0, 8, 300),
        ]
    }  # fmt: skip
    core = load_core(trace)
    assert len(core.depends_on) == 2
    piece = piece_between(core, 105_000, 115_000)
    text = written(piece)
    assert positions(trace, json.loads(text)["traceEvents"]) == [0, 1, 2, 3, 5, 6, 7, 8]
    small = load_core(text)
    assert_same_places(piece, small)
    assert len(small.depends_on) == 1
    assert [node.name for node in small.find("Kernel") if node.parent] == ["first"]


@pytest.mark.parametrize("base", [None, "1700000000000000000"])
def test_times_of_arrows_are_exact_in_every_time_base(base: str | None) -> None:
    def at(us: float) -> str:
        return f"{us:.3f}" if base else f"1700000000{us:010.3f}"

    head = f'"baseTimeNanoseconds":{base},' if base else ""
    event = '{{"ph":"X","cat":"{}","name":"x","pid":{},"tid":1,"ts":{},"dur":0.001,"args":{{{}}}}}'
    arrow = '{{"ph":"{}","cat":"ac2g","name":"ac2g","id":{},"pid":{},"tid":1,"ts":{}}}'
    events = [event.format("cpu_op", 1, at(100000), "")]
    for i in range(4):  # 2 ns apart: a float of such times cannot tell them apart
        events += [
            event.format("cuda_runtime", 1, at(123456.001 + i * 0.002), f'"correlation":{i + 1}'),
            event.format("kernel", 0, at(123456.001 + i * 0.002), f'"correlation":{i + 1}'),
            arrow.format("s", i, 1, at(123456.001 + i * 0.002)),
            arrow.format("f", i, 0, at(123456.001 + i * 0.002)),
        ]
    text = f'{{{head}"traceEvents":[{",".join(events)}]}}'.encode()
    core = load_core(text)
    piece = piece_around(core, [core.row(5)], 0)
    small = json.loads(written(piece))
    assert sorted({e["id"] for e in small["traceEvents"] if e["ph"] in "sf"}) == [1]
    assert small.get("baseTimeNanoseconds") == (int(base) if base else None)
    assert load_core(written(piece)).info.start_epoch_ns == core.info.start_epoch_ns + 23_456_003


def test_entries_that_are_no_nodes_come_if_they_overlap() -> None:
    others = [
        {"ph": "C", "cat": "counters", "name": "GPU memory", "pid": 0, "ts": 105, "args": {"bytes": 5}},
        {"ph": "C", "cat": "counters", "name": "GPU memory", "pid": 0, "ts": 305, "args": {"bytes": 5}},
        {"ph": "i", "name": "Record Window End", "pid": "Spans", "tid": "", "ts": "108", "s": "g"},
        {"ph": "X", "cat": "nobody_knows", "name": "long", "pid": 1, "tid": 5, "ts": 0, "dur": 101},
        {"ph": "X", "cat": "nobody_knows", "name": "short", "pid": 1, "tid": 5, "ts": 0, "dur": 50},
        {"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0, "args": {"name": "Spans"}},
        {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "args": {"name": "elsewhere"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": 5, "args": {"sort_index": 3}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 6, "args": {"name": "not in the piece"}},
        {"ph": "X", "name": "no time", "pid": 1},
        {"no": "event"}, 5, None, {"ph": 5, "ts": 105}, {"ph": "X", "pid": [], "ts": 105},
    ]  # fmt: skip
    trace = {"traceEvents": [span("cpu_op", "aten::mm", 0, 1000, 1, 1), span("cpu_op", "a", 100, 10, 1, 1), *others]}
    assert positions(trace, around(load_core(trace), 1)) == [0, 1, 2, 4, 5, 7, 9]


def test_nothing_that_may_be_secret_comes_along() -> None:
    trace = small_trace() | {"environment": {"TOKEN": "hush"}, "hostname": "hush"}
    trace["distributedInfo"]["master_addr"] = "hush"
    trace["traceEvents"] += [
        {"ph": "M", "name": "environment", "pid": 100, "tid": 100, "args": {"TOKEN": "hush"}},
        {"ph": "M", "name": "trace_config", "pid": 100, "args": {"path": "hush"}},
    ]
    core = load_core(trace)
    text = written(piece_between(core, 0, 2**60))
    assert b"hush" not in text
    assert json.loads(text)["deviceProperties"] == trace["deviceProperties"]
    assert json.loads(text)["baseTimeNanoseconds"] == trace["baseTimeNanoseconds"]
    assert "host" not in load_core(small_trace() | {"host": "hush"}).info.metadata


def test_lone_gpu_work_keeps_the_annotation_over_its_start() -> None:
    trace = {
        "traceEvents": [
            span("user_annotation", "forward", 0, 90, 1, 1, External_id=4),
            span("gpu_user_annotation", "forward", 10, 50, 0, 7, External_id=4),
            span("kernel", "gemm", 55, 100, 0, 7, device=0, stream=7),
            span("kernel", "later", 160, 10, 0, 7, device=0, stream=7),
        ]
    }
    core = load_core(trace)
    piece = piece_between(core, 90_000, 140_000)  # in ns from 0: the device annotation has ended before
    assert positions(trace, json.loads(written(piece))["traceEvents"]) == [0, 1, 2]
    assert_same_places(piece, load_core(written(piece)))


def packings(text: bytes, folder: Path) -> dict[str, Any]:
    (folder / "a.json").write_bytes(text)
    (folder / "a.json.gz").write_bytes(gzip.compress(text))
    (folder / "a.json.zst").write_bytes(zstandard.compress(text))
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", text)
    write_graph(load_core(text), folder / "a.tlg")
    files = {path.suffix: path for path in sorted(folder.iterdir())}
    return files | {"bytes": text, "spooled": io.BytesIO(text), "parsed": json.loads(text)}


def test_every_packing_gives_the_same_piece(tmp_path: Path) -> None:
    # Several blocks of events, with white space as Kineto writes it.
    events = [span("cpu_op", f"op {i}", 10 * i, 5, External_id=i, note="x" * 400) for i in range(3000)]
    text = json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=2).encode()
    found = {
        name: written(piece_between(load_core(source), 7_000_000, 19_000_000))
        for name, source in packings(text, tmp_path).items()
    }
    assert len(found) == 8
    assert len(set(found.values())) == 1
    assert len(json.loads(found["bytes"])["traceEvents"]) == 1201


def test_a_repaired_trace_is_cut_as_it_was_repaired() -> None:
    events = [span("cpu_op", f"op {i} of some", 10 * i, 5, 1, 1, External_id=i, note="y" * 99) for i in range(3000)]
    sound = faults.Trace(json.dumps({"traceEvents": events}).encode())
    rng = random.Random(5)
    edits = faults.several([f for f in faults.SPELLING if f is not faults.log_line], sound, rng, 40)
    whole = load_core(faults.apply(sound.data, edits, meant=True))
    mended = load_core(faults.apply(sound.data, edits))
    assert mended.info.repairs
    ends = int(whole.columns.end_ns.max())
    for begin in range(0, ends, ends // 5):
        window = begin, begin + ends // 9
        pieces = [json.loads(written(piece_between(core, *window))) for core in (mended, whole)]
        assert pieces[0] == pieces[1]


def test_lost_events_leave_no_hole(tmp_path: Path) -> None:
    events = [json.dumps(span("cpu_op", f"op {i}", 10 * i, 5, 1, 1)) for i in range(5)]
    events[2] = events[2].replace('"dur": 5', '"dur": {{{5')
    core = load_core(f'{{"traceEvents": [{",".join(events)}]}}'.encode())
    assert core.info.lost_events
    entries = json.loads(written(piece_between(core, 0, 10**9)))["traceEvents"]
    assert [entry["name"] for entry in entries] == ["op 0", "op 1", "op 3", "op 4"]


def test_packed_is_the_same_and_always_the_same() -> None:
    piece = piece_between(load_core(small_trace()), 0, 10**9)
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        write_piece(piece, file, packed=True)
    assert gzip.decompress(files[0].getvalue()) == written(piece)
    assert files[0].getvalue() == files[1].getvalue()


def test_what_cannot_be_cut_is_said_in_one_line(tmp_path: Path) -> None:
    core = load_core(small_trace())
    message = r"^nothing happens between 5,000.000 and 6,000.000 ms; the trace lasts from 0.000 to 0.900 ms$"
    with pytest.raises(AnalysisError, match=message):
        piece_between(core, 5 * 10**9, 6 * 10**9)
    with pytest.raises(AnalysisError, match="^nothing happens"):
        piece_between(load_core([]), 0, 10)
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(small_trace()))
    core = load_core(trace)
    piece = piece_between(core, 0, 10**9)
    trace.write_text(json.dumps(small_trace()) + " ")
    with pytest.raises(ChangedTraceError):
        write_piece(piece, io.BytesIO(), packed=False)


def test_a_graph_from_no_file_has_nothing_to_cut() -> None:
    api = pytest.importorskip("tracelens_graph.api")
    core = api.from_networkx(api.load(small_trace()).to_networkx())
    piece = piece_between(core, 0, 10**9)
    assert Kind.Kernel in core.columns.kind[piece.rows]
    with pytest.raises(AnalysisError, match="holds no original events to cut out$"):
        write_piece(piece, io.BytesIO(), packed=False)
