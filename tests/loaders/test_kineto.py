"""Loading: every packing and spelling gives the same graph, and nothing depends on where chunks are cut."""

from __future__ import annotations

import gc
import gzip
import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import kineto_traces, needs_corpus, parametrize_all
from tracelens_graph.errors import ChangedTraceError, NotATraceError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.kineto import chunks, loader
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Flag, Kind

US = 1_000


def op(name: str = "aten::add", ts: Any = 10, dur: Any = 5, pid: Any = 1, tid: Any = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def event(
    cat: str, name: str = "x", ts: Any = 10, dur: Any = 5, pid: Any = 1, tid: Any = 1, **args: Any
) -> dict[str, Any]:
    return {**op(name, ts, dur, pid, tid, **args), "cat": cat}


def sample() -> dict[str, Any]:
    shapes = {"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"], "Input Strides": [[3, 1], []]}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "GPU"}],
        "distributedInfo": {"rank": 3, "world_size": 4, "pg_config": [{"pg_name": "0"}, {"pg_name": "1"}]},
        "HF_TOKEN": "secret",
        "traceEvents": [
            {"name": "process_name", "ph": "M", "ts": 0, "pid": 1, "tid": 0, "args": {"name": "python"}},
            event("user_annotation", "ProfilerStep#1", 0.5, 100.25),
            event("python_function", "nn.Module: Linear_0", 1, 50),
            event("python_function", "model.py(3): forward", 1, 60),
            op("aten::linear", 2, 40, **{"External id": 7, "Sequence number": 0}, **shapes),
            event("cuda_runtime", "cudaLaunchKernel", 3, 4, correlation=11),
            event("kernel", "gemm", 20, 9.125, 0, 7, correlation=11, device=0, stream=7),
            event("gpu_memcpy", "Memcpy HtoD", 40, 3, 0, 7, bytes=4096, correlation=999, device=0, stream=7),
            {"ph": "s", "id": 11, "pid": 1, "tid": 1, "ts": 3, "cat": "ac2g", "name": "ac2g"},
            {"ph": "f", "id": 11, "pid": 0, "tid": 7, "ts": 20, "cat": "ac2g", "name": "ac2g", "bp": "e"},
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "s": "t",
             "args": {"Bytes": -512, "Device Id": 0}},
            {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler", "pid": "Spans", "tid": "x", "ts": 0, "dur": 200},
        ],
        "traceName": "/home/somebody/trace.json",
    }  # fmt: skip


def facts(core: Core) -> list[dict[str, Any]]:
    return [node.attributes() for node in core.nodes_at(range(len(core.columns)))]


@pytest.mark.parametrize("twin", ["user_annotation", "Operator"])
def test_steps_are_counted_once_and_by_their_numbers(twin: str) -> None:
    steps = [event(cat, f"ProfilerStep#{i}", 100 * i, 90) for i in range(3) for cat in ("Operator", twin)]
    steps = steps if twin == "user_annotation" else steps[::2]
    others = ("ProfilerStep#x", "ProfilerStep#", "ProfilerStep#3 extra")
    core = load_core([*steps, *(op(name, 1000 + 100 * i) for i, name in enumerate(others)), op("aten::mm", 110)])
    c = core.columns
    assert [core.names[code] for code in c.name[c.kind == Kind.Step].tolist()] == [
        f"ProfilerStep#{i}" for i in range(3)
    ]
    assert [core.names[code] for code in c.name[c.kind == Kind.Op].tolist()] == ["aten::mm", *others]


def test_a_small_trace_is_what_it_says() -> None:
    core = load_core(sample())
    kinds = [node.kind for node in core.nodes_at(range(len(core.columns)))]
    assert kinds == [
        Kind.PythonFunction, Kind.Module, Kind.Op, Kind.RuntimeCall, Kind.Kernel, Kind.Memcpy, Kind.Step,
        Kind.MemoryEvent,
    ]  # fmt: skip
    kernel = core.node(6)
    assert (kernel.start_ns, kernel.dur_ns) == (19_500, 9_125)
    assert [above.uid for above in kernel.ancestors] == [5, 4, 2, 3]
    assert kernel.owner is not None
    assert kernel.owner.shapes["Input Dims"] == [[2, 3], []]
    assert kernel.module_path == "Linear_0"
    assert kernel.step is not None
    assert kernel.step.name == "ProfilerStep#1"
    assert core.node(7).parent is None
    assert core.node(7).args == {"bytes": 4096, "correlation": 999, "device": 0, "stream": 7}
    assert core.columns.sequence[core.row(4)] == 0
    assert core.info.rank == 3
    assert "HF_TOKEN" not in core.info.metadata
    assert core.info.left_out == {"metadata": 1, "category Trace": 1, "launch flows": 2}
    assert core.info.events == 12


def as_file(data: bytes) -> Callable[[Path], Any]:
    def write(folder: Path) -> Path:
        path = folder / "any-name"
        path.write_bytes(data)
        return path

    return write


def packed_zip(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", data)
    return out.getvalue()


def packed_zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.compress(data)


TEXT = json.dumps(sample()).encode()
TAIL_FIRST = json.dumps(dict(reversed(sample().items()))).encode()
SOURCES: dict[str, Callable[[Path], Any]] = {
    "plain": as_file(TEXT),
    "indented": as_file(json.dumps(sample(), indent=4).encode()),
    "compact": as_file(json.dumps(sample(), separators=(",", ":")).encode()),
    "metadata after the events": as_file(TAIL_FIRST),
    "byte order mark": as_file(b"\xef\xbb\xbf" + TEXT),
    "gzip": as_file(gzip.compress(TEXT)),
    "gzip of two members": as_file(gzip.compress(TEXT[:400]) + gzip.compress(TEXT[400:])),
    "zstd": as_file(packed_zstd(TEXT)),
    "zip": as_file(packed_zip(TEXT)),
    "bytes": lambda folder: TEXT,
    "binary file object": lambda folder: io.BytesIO(gzip.compress(TEXT)),
    "text file object": lambda folder: io.StringIO(TEXT.decode()),
    "parsed dict": lambda folder: sample(),
}


@pytest.mark.parametrize("how", SOURCES)
def test_every_packing_gives_the_same_graph(how: str, tmp_path: Path) -> None:
    core, plain = load_core(SOURCES[how](tmp_path)), load_core(sample())
    assert facts(core) == facts(plain)
    assert core.info.metadata == plain.info.metadata
    assert core.node(6).args == plain.node(6).args


def test_a_bare_list_of_events() -> None:
    whole, bare = load_core(sample()), load_core(sample()["traceEvents"])
    assert facts(bare) == facts(whole)
    assert bare.info.metadata == {}


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(gzip.compress(TEXT))

    monkeypatch.setattr("sys.stdin", Stdin)
    core = load_core("-")
    assert facts(core) == facts(load_core(sample()))
    assert core.node(6).args["stream"] == 7


EPOCH_US = 1_763_000_000_123_456


@pytest.mark.parametrize(
    ("ts", "ns"),
    [
        ("5", 5_000), ("5.5", 5_500), ("0.001", 1), ('"5.25"', 5_250), (f"{EPOCH_US}", EPOCH_US * US),
        (f"{EPOCH_US}.789", EPOCH_US * US + 789), (f'"{EPOCH_US}.789"', EPOCH_US * US + 789),
        (f"{EPOCH_US}.5", EPOCH_US * US + 500), ("8796093022207.999", 8796093022207999), ("-3.5", -3500),
        ("1428625731896.179", 1428625731896179), ("1e3", 1_000_000), ("4.0004", 4000),
    ],
)  # fmt: skip
def test_times_are_exact_to_the_nanosecond(ts: str, ns: int) -> None:
    """The other event, at a whole microsecond, shows that differences are exact too."""
    other = str(ns // 1000 - 2)
    text = f"""{{"traceEvents":[{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":1.25}},
        {{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":2,"ts":{other},"dur":"2"}}]}}"""
    core = load_core(text.encode())
    assert core.info.start_epoch_ns + core.node(0).start_ns == ns
    assert core.info.start_epoch_ns + core.node(1).start_ns == int(other) * 1000
    assert (core.node(0).dur_ns, core.node(1).dur_ns) == (1250, 2000)


@given(st.lists(st.integers(0, 2**60), min_size=1, max_size=5))
def test_decimals_of_any_size_are_exact(starts: list[int]) -> None:
    events = ",".join(
        f'{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":{i},"ts":{ns // 1000}.{ns % 1000:03d},"dur":1}}'
        for i, ns in enumerate(starts)
    )
    core = load_core(f"[{events}]".encode())
    assert [core.info.start_epoch_ns + core.node(i).start_ns for i in range(len(starts))] == starts


def test_base_time_makes_times_absolute() -> None:
    core = load_core({"baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": [op(ts=10.5)]})
    assert core.info.start_epoch_ns == 1_700_000_000_000_010_500


def test_ids_of_any_type() -> None:
    core = load_core(
        [
            event("cuda_runtime", "launch", 1, 1, "worker", "main", correlation="abc"),
            event("cuda_runtime", "launch", 3, 1, "worker", "main", correlation=2**70),
            event("cuda_runtime", "launch", 5, 1, "worker", "main", correlation="17"),
            event("kernel", "a", 10, 1, 0, "stream 7", correlation="abc"),
            event("kernel", "b", 12, 1, 0, "stream 7", correlation=2**70),
            event("kernel", "c", 14, 1, 0, "stream 7", correlation=17),
            event("kernel", "d", 16, 1, 0, "stream 7", correlation=0),
            event("kernel", "e", 18, 1, 0, "stream 7", correlation=-1),
            event("kernel", "f", 20, 1, 0, "stream 7", correlation=None),
            event("kernel", "g", 22, 1, 0, "stream 7", correlation=2**71),
        ]
    )
    parents = [core.node(uid).parent for uid in range(3, 10)]
    assert [parent.uid if parent else None for parent in parents] == [0, 1, 2, None, None, None, None]
    assert (core.node(3).pid, core.node(3).stream, core.node(3).device) == (0, 7, 0)


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("Operator", Kind.Op), ("Runtime", Kind.RuntimeCall), ("Kernel", Kind.Kernel), ("Memcpy", Kind.Memcpy),
        ("Memset", Kind.Memset), ("cuda_driver", Kind.RuntimeCall), ("xpu_runtime", Kind.RuntimeCall),
        ("mtia_runtime", Kind.RuntimeCall), ("privateuse1_runtime", Kind.RuntimeCall), ("hpu_op", Kind.Kernel),
        ("mtia_ccp_events", Kind.Kernel), ("cuda_sync", Kind.SyncEvent), ("cuda_event", Kind.SyncEvent),
        ("overhead", Kind.Overhead), ("gpu_user_annotation", Kind.DeviceAnnotation),
    ],
)  # fmt: skip
def test_categories_of_all_years_and_vendors(category: str, kind: Kind) -> None:
    core = load_core([event(category, **{"external id": 5, "External id": 5})])
    assert core.node(0).kind is kind


def test_copies_and_waits_of_mtia_are_no_kernels() -> None:
    names = ["dma_request", "event_wait", "fused_add"]
    core = load_core([event("mtia_ccp_events", name, 10 * i, 5, device=0, stream=1) for i, name in enumerate(names)])
    assert [core.node(uid).kind for uid in range(3)] == [Kind.Memcpy, Kind.SyncEvent, Kind.Kernel]
    assert [core.names[code] for code in core.columns.name[core.gpu_rows].tolist()] == ["dma_request", "fused_add"]
    other = load_core([event("kernel", "event_wait", 0, 5, device=0, stream=1)])
    assert other.node(0).kind is Kind.Kernel


def test_old_names_of_ids() -> None:
    core = load_core([event("Operator", **{"external id": 5}), event("Kernel", "k", **{"external id": 6})])
    assert [core.node(uid).external_id for uid in (0, 1)] == [5, 6]


def test_a_host_op_with_a_stream_argument_is_no_gpu_work() -> None:
    core = load_core([op("triton_poi_fused_add_0", stream=0)])
    assert core.node(0).kind is Kind.Op
    assert len(core.gpu_rows) == 0


def test_odd_durations_are_counted_as_zero_and_flagged() -> None:
    unfinished = op(ts=5)
    del unfinished["dur"]
    core = load_core([unfinished, op(ts=6, dur=-3), op(ts=7, dur=None)])
    assert [core.node(uid).dur_ns for uid in range(3)] == [0, 0, 0]
    flags = [int(core.columns.flags[core.row(uid)]) for uid in range(3)]
    assert flags == [Flag.no_duration, Flag.negative_duration, Flag.no_duration]


def test_events_that_cannot_be_read_are_counted() -> None:
    broken = op()
    del broken["ts"]
    core = load_core([op(), broken, 17, None, {"cat": "surprise", "ph": "X"}, {"ph": "i"}, op("late", ts=99)])
    assert [node.name for node in core.nodes_at(range(2))] == ["aten::add", "late"]
    assert core.info.left_out == {"unreadable": 1, "not an event": 2, "category surprise": 1, "no category": 1}
    assert core.info.events == 7
    assert core.node(6).args == {}


ABSURD = (1e300, -1e300, 9e15, -9e15, 4.7e15, -1e12)


@given(
    st.lists(
        st.tuples(st.sampled_from(ABSURD) | st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(ABSURD)),
        min_size=1,
    )
)
def test_absurd_times_do_not_overflow(times: list[tuple[float, float]]) -> None:
    core = load_core([op(ts=ts, dur=dur, tid=place % 2) for place, (ts, dur) in enumerate(times)])
    c = core.columns
    assert len(c) + core.info.lost_in_all == len(times)
    if not len(c):
        return
    assert min(c.start_ns.min(), c.dur_ns.min()) >= 0
    assert (c.end_ns >= c.start_ns).all()
    assert sum(c.dur_ns.tolist()) == int(c.dur_ns.sum())


@pytest.mark.parametrize("damaged", [7, True, "text", {"a": {}}, [7, None, {"id": []}], 10**400])
def test_damaged_metadata_is_left_out(damaged: Any) -> None:
    trace = sample() | dict.fromkeys(("deviceProperties", "distributedInfo", "baseTimeNanoseconds"), damaged)
    info = load_core(json.dumps(trace).encode()).info
    assert info.rank is None
    assert info.metadata.get("deviceProperties", []) == []
    assert info.start_epoch_ns < 2**62


def test_wrong_types_of_fields_are_read_where_they_can_be() -> None:
    core = load_core([{**op(), "name": 17, "pid": None, "tid": 2.5, "args": None}, {**op(), "args": ["x"]}])
    assert [core.node(uid).name for uid in (0, 1)] == ["17", "aten::add"]
    assert core.node(0).dur_ns == 5_000


def test_flows_link_only_where_ids_do_not() -> None:
    def flow(phase: str, key: int, pid: int, tid: int, ts: float) -> dict[str, Any]:
        return {"ph": phase, "id": key, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g"}

    core = load_core(
        [
            event("cuda_runtime", "launch", 1, 1),
            event("kernel", "a", 10, 2, 0, 7),
            flow("s", 5, 1, 1, 1),
            flow("f", 5, 0, 7, 10),
            event("cuda_runtime", "launch", 3, 1, correlation=9),
            event("kernel", "b", 20, 2, 0, 7, correlation=8),
            flow("s", 6, 1, 1, 3),
            flow("f", 6, 0, 7, 20),
            event("kernel", "c", 30, 2, 0, 7, correlation=0),
            flow("s", 2**40 + 1, 0, 7, 22),
            flow("f", 2**40 + 1, 0, 7, 30),
        ]
    )
    parents = [core.node(uid).parent for uid in (1, 5, 8)]
    assert [parent.uid if parent else None for parent in parents] == [0, None, None]
    assert core.columns.uid[core.depends_on].tolist() == [[8, 5]]


def test_external_ids_link_where_neither_side_has_anything_else() -> None:
    def arrow(phase: str, ts: float) -> dict[str, Any]:
        return {"ph": phase, "id": 100, "pid": 0, "tid": 7, "ts": ts, "cat": "ac2g", "name": "ac2g"}

    core = load_core(
        [
            event("cuda_runtime", "hipGetDevice", 1, 1, **{"External id": 100}),
            event("cuda_runtime", "cudaLaunchKernel", 3, 1, **{"External id": 100}),
            event("cuda_runtime", "hipStreamSynchronize", 5, 1, **{"External id": 100}),
            event("cuda_runtime", "cudaLaunchKernel", 7, 1, correlation=2, **{"External id": 101}),
            event("kernel", "a", 20, 2, 0, 7, **{"External id": 100}),
            arrow("s", 20),
            arrow("f", 20),
            event("kernel", "b", 30, 2, 0, 7, **{"External id": 101}),
            event("kernel", "c", 40, 2, 0, 7, correlation=3, **{"External id": 100}),
        ]
    )
    parents = [core.node(uid).parent for uid in (4, 7, 8)]
    assert [parent.uid if parent else None for parent in parents] == [1, None, None]
    assert len(core.depends_on) == 0


def test_nested_lists_of_objects_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BLOCK", 512)
    events = [
        op(f"op{i}", ts=i, **{"list": [{"a": j, "b": {"c": [{"d": 1}, {"e": 2}]}} for j in range(9)]})
        for i in range(60)
    ]
    for indent, separators in ((None, (",", ":")), (None, (", ", ": ")), (2, None)):
        text = json.dumps({"traceEvents": events, "after": [{"x": 1}, {"y": 2}]}, indent=indent, separators=separators)
        core = load_core(text.encode())
        assert len(core.columns) == 60
        assert core.info.repairs == {}
        assert core.node(59).args == events[59]["args"]


@given(st.integers(300, 3000), st.integers(1, 80), st.booleans())
def test_nothing_depends_on_where_chunks_are_cut(block: int, count: int, compact: bool) -> None:
    events = [op(f"op{i % 7}", ts=i, dur=2, tid=i % 3, **{"External id": i + 1}) for i in range(count)]
    text = json.dumps({"traceEvents": events}, separators=(",", ":") if compact else None).encode()
    whole = load_core(text)
    before = chunks.BLOCK
    try:
        chunks.BLOCK = block
        assert load_core(text).equals(whole)
    finally:
        chunks.BLOCK = before


class _Interrupted:
    """A consumer that is interrupted while it holds a piece of the chunk, as by Ctrl-C."""

    def chunk(self, text: memoryview, offset: int) -> None:
        self.held = msgspec.Raw(text)
        raise KeyboardInterrupt

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        raise AssertionError


def test_an_interruption_passes_through_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BLOCK", 512)
    events = [op(f"op{i}", ts=i, dur=2) for i in range(60)]
    walker = chunks.Walker(io.BytesIO(json.dumps({"traceEvents": events}).encode()), "trace")
    walker.read_head()
    with pytest.raises(KeyboardInterrupt):
        walker.walk(_Interrupted())


class _Watched:
    """A collector whose chunks are held by someone else, as by a profiler that looks at frames from another thread."""

    def __init__(self) -> None:
        self.held: list[tuple[msgspec.Raw, bytes]] = []

    def chunk(self, text: memoryview, offset: int) -> None:
        pieces = msgspec.json.decode(text, type=list[msgspec.Raw])
        self.held += [(piece, bytes(piece)) for piece in pieces]

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        raise AssertionError


def test_whoever_holds_pieces_of_chunks_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BLOCK", 512)
    events = [op(f"op{i}", ts=i, dur=2) for i in range(60)]
    walker = chunks.Walker(io.BytesIO(json.dumps({"traceEvents": events}).encode()), "trace")
    walker.read_head()
    watched = _Watched()
    assert walker.walk(watched)
    assert [json.loads(text) for _, text in watched.held] == events
    assert all(bytes(piece) == text for piece, text in watched.held)


@needs_corpus
@pytest.mark.parametrize(
    ("which", "packing"),
    [
        ("qwen1.5-0.5b", "plain"), ("qwen1.5-0.5b", "gzip"), ("resnet-ddp-checkpointing", "bare list"),
        ("nanosecond-resolution", "gzip"),
    ],
)  # fmt: skip
def test_two_processes_give_what_one_gives(
    which: str, packing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "SPLIT_FROM", 0)
    monkeypatch.setattr(loader.threading, "active_count", lambda: 1)
    monkeypatch.setattr(loader.os, "sched_getaffinity", lambda pid: {0, 1})
    path = next(path for path in kineto_traces() if path.name.startswith(which))
    if packing == "plain":
        path = as_file(gzip.decompress(path.read_bytes()))(tmp_path)
    elif packing == "bare list":
        path = as_file(json.dumps(json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]).encode())(tmp_path)
    forks = []
    real_fork = loader.os.fork
    monkeypatch.setattr(loader.os, "fork", lambda: forks.append(1) or real_fork())
    two, one = load_core(path), load_core(path, processes=1)
    assert forks == [1]
    assert two.equals(one)
    assert two.info.repairs == {}
    uids = np.random.default_rng(1).choice(one.columns.uid, 20).tolist()
    assert two.details.events(uids) == one.details.events(uids)


def test_a_second_process_that_dies_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "SPLIT_FROM", 0)
    monkeypatch.setattr(loader.threading, "active_count", lambda: 1)
    monkeypatch.setattr(loader.os, "sched_getaffinity", lambda pid: {0, 1})
    events = [op(f"op{i}", ts=i, dur=2) for i in range(9000)]
    path = as_file(json.dumps({"traceEvents": events}).encode())(tmp_path)
    one = load_core(path, processes=1)
    monkeypatch.setattr(loader.pickle, "dump", lambda *args, **options: 1 / 0)
    assert load_core(path).equals(one)
    monkeypatch.setattr(chunks.Walker, "skip_to", lambda self, target: 1 / 0)
    assert load_core(path).equals(one)


@parametrize_all("path", kineto_traces())
def test_original_arguments_of_real_events_are_found_again(path: Path) -> None:
    parsed = json.loads(gzip.decompress(path.read_bytes()))
    events = parsed["traceEvents"] if isinstance(parsed, dict) else parsed
    core = load_core(path)
    assert core.info.events == len(events)
    assert core.info.repairs == {}
    uids = np.random.default_rng(0).choice(core.columns.uid, min(50, len(core.columns)), replace=False).tolist()
    found = core.details.events(uids)
    assert [found[uid] for uid in uids] == [events[uid] for uid in uids]
    for uid in uids:
        node = core.node(uid)
        assert (node.name, node.pid, node.tid) == (events[uid]["name"], events[uid]["pid"], events[uid]["tid"])


def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    path = as_file(TEXT)(tmp_path)
    core = load_core(path)
    path.write_bytes(TEXT + b" ")
    with pytest.raises(ChangedTraceError, match="changed since it was loaded"):
        _ = core.node(6).args
    path.unlink()
    with pytest.raises(ChangedTraceError, match="gone"):
        core.details.events([5])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"   \n", "white space"),
        (b"hello world", "begins with 'hello world'"),
        (b"<html>", "HTML"),
        (b"\x0a\x20\xff\x00/device:GPU:0", "protocol buffer"),
        (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": {}}', "execution trace without a list `nodes`"),
        (b'{"cells": [], "nbformat": 4}', "notebook"),
        (b'{"a": 1, "b": 2}', "it has: a, b"),
        (b'{"traceEvents": {"not": "a list"}}', "no list `traceEvents`"),
        (b'[[0, {"a": 1}]]', "a JSON list without events"),
        (b'[[[{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]]]', "without events"),
        (gzip.compress(b"hello", mtime=0), "begins with 'hello'"),
        (b"[LGRAPH1 and no JSON", "no event in it can be read"),
    ],
)
def test_what_is_no_trace_is_named(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(NotATraceError) as caught:
        load_core(as_file(content)(tmp_path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        load_core(tmp_path / "nowhere.json")
    with pytest.raises(NotATraceError, match="folder"):
        load_core(tmp_path)


@pytest.mark.parametrize("content", [{"traceEvents": []}, []])
def test_a_trace_without_events_is_an_empty_graph(content: Any) -> None:
    core = load_core(content)
    assert len(core.columns) == 0
    assert core.find() == []
    assert core.roots() == []


SPAN = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
INSTANT = {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace"}


@pytest.mark.parametrize(
    ("earlier", "lead_ns"),
    [
        pytest.param(SPAN | {"ts": 70.5, "dur": 100}, 29_500, id="the span of the profiler"),
        pytest.param(SPAN | {"ts": "70.5", "dur": "100"}, 29_500, id="times as text"),
        pytest.param(SPAN | {"ts": 70}, 0, id="a span without a duration is not drawn"),
        pytest.param(INSTANT | {"ts": 90.25}, 9_750, id="an instant without a category"),
        pytest.param(INSTANT | {"cat": "unheard of", "ts": 90}, 10_000, id="an unknown category"),
        pytest.param({"ph": "C", "name": "c", "pid": 1, "ts": 60, "args": {"v": 1}}, 40_000, id="a counter"),
        pytest.param(SPAN | {"ts": 130, "dur": 1}, 0, id="nothing that is earlier"),
        pytest.param(INSTANT | {"ts": None}, 0, id="no time"),
        pytest.param({"ph": "M", "name": "process_name", "pid": 1, "ts": 1, "args": {"name": "p"}}, 0, id="a name"),
        pytest.param({"ph": "s", "id": 1, "cat": "ac2g", "pid": 1, "tid": 1, "ts": 1}, 0, id="an arrow"),
    ],
)
def test_the_zero_of_perfetto_ui_is_the_first_that_it_draws(earlier: dict[str, Any], lead_ns: int) -> None:
    first = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 100, "dur": 10}
    for events in ([earlier, first], [first, earlier]):
        core = load_core({"traceEvents": events})
        assert core.info.lead_ns == lead_ns
        assert core.info.shown_ms(core.node(events.index(first)).start_ns) == lead_ns / 1e6


def test_a_refused_zip_leaves_nothing_that_is_half_open(monkeypatch: pytest.MonkeyPatch) -> None:
    out, unraisable = io.BytesIO(), []
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.json", TEXT)
        archive.writestr("b.json", TEXT)
    monkeypatch.setattr(sys, "unraisablehook", lambda told: unraisable.append(repr(told.exc_value)))
    for data, words in ((out.getvalue(), "the zip holds 2 files; one JSON trace"), (out.getvalue()[:300], "zip")):
        with pytest.raises(TraceError, match=words):
            load_core(io.BytesIO(data))
        gc.collect()
    assert unraisable == []
