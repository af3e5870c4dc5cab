"""Tensors and memory: known answers on a small pair, allocations, and the database's answers beside ours."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade import span
from memory_snapshots import SNAPSHOT
from memory_traces import instant, training
from same_tables import Ask, twins, with_queries

from corpus import CHECKOUT, traces_named
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.errors import NoTimesError
from tracelens_graph.frameworks import PYTORCH
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

QUERIES = with_queries("bytes_alive copy_chains peak_bytes_by_module shared_reads storage_kernels tensor_makers")
SMALL: dict[str, Any] = {"batch": 2, "tokens": 16, "width": 32, "heads": 2, "vocabulary": 64}


@cache
def simulated(**options: Any) -> Core:
    (rank, *_) = simulate(**SMALL, **options).ranks
    return load_core(rank.trace, et=rank.execution_trace)


@cache
def recorded() -> Core:
    stem = CHECKOUT / "examples/traces/tiny-transformer-cpu"
    return load_core(f"{stem}.json.gz", et=f"{stem}.execution-trace.json.gz")


def tensor(number: int, storage: int, *shape: int, dtype: str = "float", size: int = 4) -> tuple[Any, Any, str, Any]:
    """An argument as the observer writes it: value, shape, type, strides."""
    elements = int(np.prod(shape, dtype=int))
    strides = [int(np.prod(shape[i + 1 :], dtype=int)) for i in range(len(shape))]
    return [number, storage, 0, elements, size, "cuda:0"], list(shape), f"Tensor({dtype})", strides


class Pair:
    """A trace and an execution trace of calls one after another, each on a stream."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []

    def call(
        self, name: str, inputs: list[Any], outputs: list[Any], schema: str = "", streams: tuple[int, ...] = ()
    ) -> None:
        number, at = len(self.nodes) + 2, 100.0 * len(self.nodes)
        host = {"ph": "X", "pid": 1, "tid": 1}
        told = {"External id": number, "Record function id": number}
        self.events.append({**host, "cat": "cpu_op", "name": name, "ts": at, "dur": 50.0, "args": told})
        for place, stream in enumerate(streams):
            link = {"correlation": 100 * number + place}
            call = {
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": at + 1 + 2 * place,
                "dur": 1.0,
                "args": link,
            }
            self.events.append({**host, **call})
            args = {**link, "device": 0, "stream": stream}
            at_gpu = {"ph": "X", "pid": 0, "tid": stream, "cat": "kernel", "ts": at + 10 + 5 * place, "dur": 4.0}
            self.events.append({**at_gpu, "name": f"kernel of {name}", "args": args})
        sides = {
            side: {key: [one[i] for one in values] for i, key in enumerate(("values", "shapes", "types", "strides"))}
            for side, values in (("inputs", inputs), ("outputs", outputs))
        }
        attrs = [
            {"name": "rf_id", "type": "uint64", "value": number},
            {"name": "op_schema", "type": "string", "value": schema},
        ]
        self.nodes.append({"id": number, "name": name, "ctrl_deps": 1, **sides, "attrs": attrs})

    @property
    def core(self) -> Core:
        process = {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "attrs": []}
        execution = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [*self.nodes, process]}
        return load_core({"traceEvents": self.events}, et=execution)


COPY = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
EMPTY = "aten::empty(SymInt[] size) -> Tensor"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"


@cache
def small() -> Core:
    """x (there before) is cast to b, b to c; mm reads c on two streams; c is written, and copied to d."""
    pair = Pair()
    x, b, c, d = (
        tensor(10, 11, 4, 8),
        tensor(20, 21, 4, 8, dtype="c10::Half", size=2),
        tensor(30, 31, 4, 8),
        tensor(40, 41, 4, 8),
    )
    y = tensor(50, 51, 4, 4)
    pair.call("aten::empty", [], [b], EMPTY)
    pair.call("aten::copy_", [b, x], [b], COPY, streams=(7,))
    pair.call("aten::empty", [], [c], EMPTY)
    pair.call("aten::copy_", [c, b], [c], COPY, streams=(7,))
    pair.call("aten::mm", [c, c], [y], MM, streams=(7, 9))
    pair.call("aten::relu_", [c], [c], "aten::relu_(Tensor(a!) self) -> Tensor(a!)", streams=(7,))
    pair.call("aten::clone", [c], [d], "aten::clone(Tensor self) -> Tensor", streams=(9,))
    return pair.core


def records(name: str, core: Core, *columns: str, **parameters: Any) -> list[tuple[Any, ...]]:
    table = QUESTIONS[name](core, **parameters)
    return [tuple(row[column] for column in columns) for row in table.records()]


def test_kernels_that_touched_a_storage() -> None:
    found = records("storage_kernels", small(), "kernel", "access", "stream", storage="s31")
    assert found == [
        ("kernel of aten::copy_", "written", 7), ("kernel of aten::mm", "read", 7), ("kernel of aten::mm", "read", 9),
        ("kernel of aten::relu_", "read, written", 7), ("kernel of aten::clone", "read", 9),
    ]  # fmt: skip
    assert records("storage_kernels", small(), "storage") == [("s31",)] * 5, "the one with the most time of kernels"


def test_makers() -> None:
    core = small()
    clone = next(
        int(uid)
        for uid, name in zip(core.columns.uid, core.columns.name, strict=True)
        if core.names[name] == "aten::clone"
    )
    ((tensor, made_by, allocated_by, written_by),) = records(
        "tensor_makers", core, "tensor", "made_by", "allocated_by", "written_by", uid=clone
    )
    assert (tensor, made_by, allocated_by, written_by) == (
        "t30: float32[4,8]", "aten::empty", "aten::empty", "aten::relu_",
    )  # fmt: skip


def test_chains_of_copies_end_where_others_write() -> None:
    found = records("copy_chains", small(), "copies", "bytes", "way", min_copies=1)
    assert found == [
        (2, 64 + 128, "t10: float32[4,8] > t20: float16[4,8] > t30: float32[4,8]"),
        (1, 128, "t30: float32[4,8] > t40: float32[4,8]"),
    ]
    assert len(records("copy_chains", small(), "copies")) == 1


def test_bytes_alive() -> None:
    # x from the start to 150; b 0..350; c 200..650; y 400..450; d 600..650 us
    found = records("bytes_alive", small(), "at_us", "bytes", "storages", points=13)
    assert found[:5] == [(0, 192, 2), (50, 192, 2), (100, 192, 2), (150, 64, 1), (200, 192, 2)]
    assert max(held for _, held, _ in found) == 256
    peak = records("peak_bytes_by_module", small(), "at_us", "op", "bytes", "percent")
    assert peak == [(600.0, "aten::clone", 128, 50.0), (600.0, "aten::empty", 128, 50.0)]


def test_storages_read_from_several_streams() -> None:
    assert records("shared_reads", small(), "storage", "stream_numbers", "kernels") == [("s31", "7, 9", 4)]


def test_what_an_execution_trace_alone_answers() -> None:
    execution = CHECKOUT / "examples/traces/tiny-transformer-cpu.execution-trace.json.gz"
    alone = load_core(execution)
    answered = set()
    for name, question in QUESTIONS.items():
        if question.several:
            continue
        try:
            question(alone)
        except NoTimesError:
            continue
        answered.add(name)
    assert answered == {"tensor_makers", "copy_chains", "peak_bytes_by_module"}
    one, other = (records("copy_chains", core, "way", min_copies=1) for core in (alone, recorded()))
    assert one == other != []
    peaks = (records("peak_bytes_by_module", core, "bytes") for core in (alone, recorded()))
    held, also = (sum(size for (size,) in peak) for peak in peaks)
    assert held == also > 0, "modules are those of the profiler's trace, the peak is not"


test_the_database_says_the_same, _ = twins(
    QUERIES,
    {
        "small": small, "recorded": recorded,
        "two ranks": lambda: simulated(steps=2, ranks=2, reuse_ids=True),
        "recomputed": lambda: simulated(recompute="non_reentrant"),
    },
    also=[
        ("recorded", "copy_chains", {"min_copies": 1, "top": 0}),
        ("recorded", "copy_chains", {"min_copies": 1, "top": 3}),
        ("recorded", "bytes_alive", {"points": 7}),
        ("small", "shared_reads", {"top": 1}),
        ("small", "storage_kernels", {"storage": "s31"}),
    ],
)  # fmt: skip


ALLOCATIONS = with_queries("allocations_by_module memory_peak")
UNSEEN = [
    instant(1, 100, 1, 1100, reserved=2000), instant(2, 50, 1, 1050), instant(2, -50, 1, 1000), instant(2, 70, 2, 1070),
    instant(3, -30, 9, 1040), instant(4, 60, 2, 1100), instant(4, -1000, 8, 100), instant(5, 5, 3, kind=0, device=-1),
    instant(6, 5, 4, kind=0, device=-1), instant(9, 8, 1, 8, device=2), instant(9, 8, 2, 16, device=10),
    instant(9, 10**9, 0, 8, name="[OutOfMemory]"),
]  # fmt: skip
"""Releases that are not recorded, several changes of one moment, totals that are missing, several devices."""


@cache
def trained() -> Core:
    return load_core(simulate(ranks=1, steps=2, layers=1).ranks[0].trace)


test_both_say_the_same, test_both_say_the_same_of_real_traces = twins(
    ALLOCATIONS,
    {
        "training": lambda: load_core(training()),
        "unseen": lambda: load_core(UNSEEN),
        "simulated": trained,
        "snapshot": lambda: load_core(pickle.dumps(SNAPSHOT)),
    },
    also=[("simulated", name, {"step": 4}) for name in ALLOCATIONS],
    files=traces_named("tracelens/h100/bert-small", "tracelens/mi300/normalization-layers"),
    rows=1,
)


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_a_database_without_allocations_says_what_to_record(database: Database, ask: Ask, name: str) -> None:
    core = load_core([one for one in training() if one["name"] != "[memory]"])
    query, twin = ask(core, name)
    assert len(query) == len(twin) == 0
    assert query.notes == twin.notes == [PYTORCH.no_allocations]
    ops_only = load_core([*training(), span("cpu_op", "another", 995, 1)])
    database.push(ops_only, run="memory", name="ops-only", options=Options(("Op",)))
    assert database.ask(name, trace="memory/ops-only").notes == [
        "allocations were left out when the trace was pushed: push it with --replace, and MemoryEvent in --only"
    ]
