"""In a cut of several ranks every event has the place that it has in its trace, on the common clock."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from handmade import span

from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import DEVICE_KINDS
from tracelens_graph.stores.cut import Piece, piece_between
from tracelens_graph.stores.ranks_cut import ARROW, Joined, RankPiece, write_ranks

AS_RECORDED = ("kind", "dur_ns", "stream", "bytes", "sequence", "forward_thread", "owner_rule", "depth")


def later(times: np.ndarray, by: int) -> np.ndarray:
    return times + by


def arrow(phase: str, key: int, pid: int, tid: int, ts: float, cat: str = "ac2g") -> dict[str, Any]:
    return {"ph": phase, "cat": cat, "name": cat, "id": key, "pid": pid, "tid": tid, "ts": ts}


def rank_trace(rank: int, kernel_at: float = 100.0, device: int = 0, **top: Any) -> dict[str, Any]:
    """A rank whose processes, devices, correlations and arrows are numbered like those of every other rank."""
    on = {"device": device, "stream": 7}
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [{"id": number, "name": f"GPU {number}"} for number in range(4)],
        "distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"},
        "trace_id": f"id of {rank}",
        "host_name": "secret",
        "traceEvents": [
            span("cpu_op", "aten::linear", 1, 300, 50, 60, External_id=1, Sequence_number=3),
            span("cpu_op", f"op of {rank}", 2, 80, 50, 60, External_id=2),
            span("cuda_runtime", "cudaLaunchKernelExC", 10, 5, 50, 60, External_id=2, correlation=9),
            span("cuda_runtime", "cudaLaunchKernelExC", 20, 5, 50, 60, External_id=2, correlation=10),
            span("cpu_op", "LinearBackward", 310, 20, 50, 61, Sequence_number=3, Fwd_thread_id=1),
            span("kernel", "ncclDevKernel_AllReduce", kernel_at, 50, device, 7, **on, External_id=2, correlation=9),
            span("kernel", "after it", kernel_at + 60, 10, device, 8, device=device, stream=8, correlation=10),
            span("gpu_user_annotation", "nccl:all_reduce", kernel_at - 1, 52, device, 7),
            {"ph": "C", "cat": "counters", "name": "memory", "pid": 0, "tid": 0, "ts": 105, "args": {"bytes": 5}},
            span("Trace", "PyTorch Profiler (0)", 0, 9000, "Spans", "PyTorch Profiler"),
            arrow("s", 9, 50, 60, 10), arrow("f", 9, device, 7, kernel_at),
            arrow("s", 5, 50, 60, 1, "fwdbwd"), arrow("f", 5, 50, 61, 310, "fwdbwd"),
            arrow("s", 2**40 + 1, device, 7, kernel_at + 50), arrow("f", 2**40 + 1, device, 8, kernel_at + 60),
            {"ph": "M", "name": "process_name", "pid": 50, "tid": 0, "ts": 0, "args": {"name": "python3"}},
            {"ph": "M", "name": "process_sort_index", "pid": 50, "tid": 0, "args": {"sort_index": 77}},
            {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7 "}},
        ],
        **top,
    }  # fmt: skip


def pieces_of(cores: list[Core], offsets: list[int]) -> list[RankPiece]:
    return [
        RankPiece(f"rank {place}", piece_between(core, 0, 2**60), partial(later, by=by))
        for place, (core, by) in enumerate(zip(cores, offsets, strict=True))
    ]


def written(pieces: list[RankPiece], joined: list[Joined] | None = None, **options: Any) -> dict[str, Any]:
    file = io.BytesIO()
    number = write_ranks(pieces, joined or [], file, packed=False, **options)
    trace: dict[str, Any] = json.loads(file.getvalue())
    assert number == len(trace["traceEvents"])
    return trace


def assert_same_places(piece: Piece, clock: Callable[[np.ndarray], np.ndarray], small: Core, rows: np.ndarray) -> None:
    """The nodes of a piece are the rows of `small`, in their order, with the same relatives, on another clock."""
    core, c, s = piece.core, piece.core.columns, small.columns
    there = piece.rows[np.argsort(c.uid[piece.rows], kind="stable")]
    assert len(there) == len(rows)
    for name in AS_RECORDED:
        assert np.array_equal(getattr(c, name)[there], getattr(s, name)[rows]), name
    moved = s.start_ns[rows] - clock(c.start_ns[there])
    assert len(np.unique(moved)) <= 1
    assert [core.names[code] for code in c.name[there]] == [small.names[code] for code in s.name[rows]]
    row_of = np.full(len(c) + 1, -2)
    row_of[there], row_of[-1] = rows, -1
    for whole, part in ((c, s), (core, small)):
        for name in ("parent", "owner") if whole is c else ("step", "annotation"):
            assert np.array_equal(row_of[getattr(whole, name)[there]], getattr(part, name)[rows]), name
    for mine, its in ((core.depends_on, small.depends_on), (backward(core), backward(small))):
        kept = row_of[mine]
        inside = set(map(tuple, its[np.isin(its, rows).all(axis=1)].tolist()))
        assert set(map(tuple, kept[(kept >= 0).all(axis=1)].tolist())) <= inside


def backward(core: Core) -> np.ndarray:
    return np.stack((core.autograd.forward, core.autograd.backward), axis=1)


def assert_is_chrome_trace(trace: dict[str, Any]) -> None:
    """What Perfetto needs of a trace: numbers for processes, arrows that start and end within slices, in order."""
    slices: dict[tuple[Any, Any], list[tuple[float, float]]] = defaultdict(list)
    arrows: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        assert type(event["pid"]) is int
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] in "stf":
            arrows[event["id"]].append(event)
    for ends in arrows.values():
        assert [end["ph"] for end in ends] == ["s", *["t"] * (len(ends) - 2), "f"]
        assert len({end["cat"] for end in ends}) == 1
        assert [end["ts"] for end in ends] == sorted(end["ts"] for end in ends)
        for end in ends:
            assert any(a <= end["ts"] <= b for a, b in slices[end["pid"], end["tid"]])


def test_ranks_that_number_everything_alike_stay_apart() -> None:
    cores = [load_core(rank_trace(rank, kernel_at)) for rank, kernel_at in enumerate((100.0, 200.0))]
    pieces = pieces_of(cores, [5_000, 0])
    nccl = [core.row(5) for core in cores]
    trace = written(pieces, [Joined("allreduce 0", [(0, nccl[0], 104_000), (1, nccl[1], 199_000)])], epoch_ns=10**18)
    assert_is_chrome_trace(trace)
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names == {0: "rank 0 GPU", 2: "rank 0 host", 1: "rank 1 GPU", 3: "rank 1 host"}
    order = {e["pid"]: e["args"]["sort_index"] for e in trace["traceEvents"] if e["name"] == "process_sort_index"}
    assert sorted(order, key=order.__getitem__) == [0, 2, 1, 3]
    small = load_core(trace)
    s = small.columns
    in_order = np.argsort(s.uid, kind="stable")
    for piece, pids in zip(pieces, ((0, 2), (1, 3)), strict=True):
        rows = in_order[[small.threads[code][0] in pids for code in s.thread[in_order]]]
        assert_same_places(piece.piece, piece.clock, small, rows)
    of_device = np.isin(s.kind, [*DEVICE_KINDS])
    assert sorted(set(s.device[of_device & (s.device >= 0)].tolist())) == [0, 1]
    assert len(small.depends_on) == 2
    assert small.info.start_epoch_ns == 10**18  # the first op of rank 1
    assert not small.info.damage
    assert small.info.left_out == {
        "launch flows": 8, "forward-backward flows": 4, "metadata": 12, "category collective": 2,
        "category counters": 2,
    }  # fmt: skip


def test_metadata_is_what_the_ranks_agree_on() -> None:
    cores = [load_core(rank_trace(0, device=0)), load_core(rank_trace(1, device=0, record_shapes=1))]
    trace = written(pieces_of(cores, [0, 0]), about={"collective": 4})
    assert trace["generator"].startswith("tracelens_graph ")
    assert trace["distributedInfo"] == {"world_size": 2, "backend": "nccl"}
    assert trace["deviceProperties"] == [{"id": 0, "name": "GPU 0"}, {"id": 1, "name": "GPU 0"}]
    assert trace["otherData"] == {"collective": 4}
    assert trace.keys() == {
        "generator", "schemaVersion", "distributedInfo", "host", "deviceProperties", "otherData", "traceEvents",
    }  # fmt: skip
    assert "secret" not in json.dumps(trace)
    own_devices = [load_core(rank_trace(rank, device=3 - rank)) for rank in range(2)]
    assert [one["id"] for one in written(pieces_of(own_devices, [0, 0]))["deviceProperties"]] == [3, 2]


def test_times_are_exact_whatever_the_clock() -> None:
    base = 1_700_000_000_000_000_000
    texts = [
        f'{{"traceEvents":[{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{(base + ns) // 1000}.'
        f'{(base + ns) % 1000:03d},"dur":0.001}}]}}'.encode()
        for ns in (1, 3)
    ]
    trace = written(pieces_of([load_core(text) for text in texts], [1_000_000_000_001, 1_000_000_000_003]))
    assert [e["ts"] for e in trace["traceEvents"] if e["ph"] == "X"] == [0, 0.002]
    back = written(pieces_of([load_core(text) for text in texts], [-7, -12_345]))
    assert [e["ts"] for e in back["traceEvents"] if e["ph"] == "X"] == [12.338, 0]


def test_arrows_lead_through_all_kernels() -> None:
    cores = [load_core(rank_trace(rank, at)) for rank, at in enumerate((100.0, 120.0, 90.0))]
    rows = [core.row(5) for core in cores]
    joined = Joined("allreduce 3", [(2, rows[2], 89_000), (0, rows[0], 99_000), (1, rows[1], 119_000)])
    trace = written(pieces_of(cores, [0, 0, 0]), [joined])
    assert_is_chrome_trace(trace)
    ends = [event for event in trace["traceEvents"] if event.get("cat") == ARROW]
    assert [(end["ph"], end["name"], end["ts"], end["tid"]) for end in ends] == [
        ("s", "allreduce 3", 89, 7), ("t", "allreduce 3", 99, 7), ("f", "allreduce 3", 119, 7),
    ]  # fmt: skip


def test_odd_entries_do_no_harm() -> None:
    trace = rank_trace(0)
    trace["traceEvents"] += [
        {"cat": "cpu_op", "name": "no phase", "pid": 50, "tid": 60, "ts": 320, "dur": 1, "args": {"correlation": "x"}},
        {"ph": "X", "cat": "cpu_op", "name": "text ids", "pid": "50", "tid": "t", "ts": "330", "dur": 1,
         "args": {"External id": "12", "device": None}},
        {"ph": "X", "cat": "nobody_knows", "name": "args", "pid": 50, "tid": 60, "ts": 5, "dur": 1, "args": [1]},
        {"ph": "i", "name": "no process", "ts": 5},
    ]  # fmt: skip
    found = {event["name"]: event for event in written(pieces_of([load_core(trace)], [0]))["traceEvents"]}
    assert found["no phase"]["args"] == {"correlation": "x"}
    assert found["text ids"]["args"] == {"External id": 3, "device": None}
    assert found["text ids"]["ts"] == 329
    assert found["args"]["args"] == [1]
    assert "no process" not in found
