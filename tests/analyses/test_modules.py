"""GPU time of modules: known answers, a second plain reading, simulated truth, and sums that must hold everywhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import events as other_events
from made_traces import traces

from corpus import chosen_traces, kineto_traces, loaded, parametrize
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.places.attribution import NO_MODULE, OPTIMIZER, attribution
from tracelens_graph.analyses.places.modules import MODULE_TREE, PASSES, WHOLE, modules
from tracelens_graph.errors import AnalysisError
from tracelens_graph.frameworks import PYTORCH
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

Event = dict[str, Any]
Times = dict[str, tuple[int, int]]
"""Path -> forward and backward time, ns."""

BACKWARD = 2
"""Thread of the backward pass."""


def module(name: str, ts: float, dur: float, tid: int = 1) -> Event:
    return span("python_function", f"nn.Module: {name}", ts, dur, 100, tid)


def op(name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> Event:
    return span("cpu_op", name, ts, dur, 100, tid, **args)


def work(ts: float, dur: float, correlation: int, tid: int = 1, name: str = "gemm") -> list[Event]:
    """A launch, and the kernel that it leads to."""
    return [
        span("cuda_runtime", "cudaLaunchKernel", ts, 1, 100, tid, correlation=correlation),
        span("kernel", name, 1000 + 100 * correlation, dur, 0, 7, device=0, stream=7, correlation=correlation),
    ]


def training_step() -> list[Event]:
    """Net_0 of two layers, its backward pass, an optimizer step, and a kernel from before the recording."""
    return [
        module("Net_0", 0, 100),
        module("Linear_0", 10, 30),
        op("aten::addmm", 11, 20, Sequence_number=1),
        *work(12, 10.001, 1),
        module("Dropout_0", 41, 4),
        module("Linear_1", 50, 30),
        op("aten::addmm", 51, 20, Sequence_number=2),
        *work(52, 20.002, 2),
        op("aten::add", 85, 10, Sequence_number=3),
        *work(86, 3, 3),
        op("aten::mse_loss", 110, 10, Sequence_number=4),
        *work(111, 1, 4),
        *(event for i, name in enumerate(("MseLoss", "Add", "Addmm", "Addmm")) for event in backward_op(name, 4 - i)),
        op("Optimizer.step", 400, 20),
        *work(401, 5, 9),
        span("kernel", "early", 900, 7, 0, 7, device=0, stream=7, correlation=99),
    ]


def backward_op(name: str, sequence: int) -> list[Event]:
    """A backward op under the engine, which launches its kernel of `100 * sequence` us and then one of 1 us outside."""
    ts = 300 - 20 * sequence
    args = {"Sequence_number": sequence, "Fwd_thread_id": 1}
    return [
        op(f"autograd::engine::evaluate_function: {name}Backward0", ts, 16, BACKWARD, **args),
        op(f"{name}Backward0", ts + 1, 8, BACKWARD, **args),
        *work(ts + 2, 100 * sequence, 10 + sequence, BACKWARD),
        *work(ts + 12, 1, 20 + sequence, BACKWARD),
    ]


def paths(table: Table) -> dict[str, tuple[float, float]]:
    return {row["path"]: (row["forward_us"], row["backward_us"]) for row in table.records()}


def test_known_answer() -> None:
    table = modules(load_core(training_step()))
    assert list(table.columns) == list(MODULE_TREE)
    assert [(row["depth"], row["module"], row["class"], row["calls"]) for row in table.records()] == [
        (0, WHOLE, WHOLE, 0),
        (1, "Net_0", "Net", 1),
        (2, "Linear_0", "Linear", 1),
        (2, "Linear_1", "Linear", 1),
        (2, PYTORCH.outside_modules, PYTORCH.outside_modules, 0),
        (1, PYTORCH.outside_modules, PYTORCH.outside_modules, 0),
        (1, NO_LAUNCH, NO_LAUNCH, 0),
    ]
    assert paths(table) == {
        "": (33.003 + 407 + 7, 603.0),
        "Net_0": (33.003, 603.0),
        "Net_0/Linear_0": (10.001, 101.0),
        "Net_0/Linear_1": (20.002, 201.0),
        f"Net_0/{PYTORCH.outside_modules}": (3.0, 301.0),
        # The loss forward and backward, with what the engine launches beside that op, and the optimizer.
        PYTORCH.outside_modules: (1.0 + 400 + 1 + 5, 0.0),
        NO_LAUNCH: (7.0, 0.0),
    }
    assert table["uid"] == [None, 0, 1, 6, None, None, None]
    assert list(table["total_us"]) == [row["forward_us"] + row["backward_us"] for row in table.records()]
    assert np.asarray(table["percent"])[[0, 1]] == pytest.approx([100, 100 * 636.003 / 1050.003])
    assert list(table.notes) == [
        "1 GPU events (0.7 % of GPU time) have no launch in the trace: included",
        "1 modules without GPU work are left out",
    ]


def test_an_optimizer_has_a_line_and_modules_their_backward_pass() -> None:
    """In both tables, and of both ways in which PyTorch marks the step of an optimizer."""
    core = load_core([
        *training_step(),
        span("user_annotation", "Optimizer.step#AdamW.step", 500, 50, 100, 1),
        span("user_annotation", "inner", 510, 20, 100, 1), *work(511, 50, 31), *work(540, 8, 32),
        op("Optimizer.step#SGD.step", 600, 50), op("aten::add_", 610, 20), *work(611, 2, 33), *work(700, 6, 34),
    ])  # fmt: skip
    lines = {row["path"]: row for row in modules(core).records()}
    assert [lines[OPTIMIZER][f"{name}_us"] for name in (*PASSES, "total")] == [0, 0, 60, 60]
    assert (lines[""]["optimizer_us"], lines["Net_0"]["optimizer_us"]) == (60, 0)
    assert lines[PYTORCH.outside_modules]["total_us"] == 1 + 400 + 1 + 5 + 6
    found = {row["name"]: row for row in attribution(core, level="module").records()}
    assert {name: (row["inclusive_sum_us"], row["exclusive_sum_us"]) for name, row in found.items()} == {
        "nn.Module: Net_0": (636.003, 304.0), "nn.Module: Linear_0": (111.001, 111.001),
        "nn.Module: Linear_1": (221.002, 221.002), OPTIMIZER: (60, 60), NO_MODULE: (413, 413), NO_LAUNCH: (7, 7),
    }  # fmt: skip
    check_against_attribution(core, modules(core))


def test_by_class_merges_at_one_place() -> None:
    table = modules(load_core(training_step()), by="class")
    assert paths(table)["Net/Linear"] == (30.003, 302.0)
    (row,) = (row for row in table.records() if row["module"] == "Linear")
    assert (row["class"], row["instances"], row["calls"], row["uid"], row["depth"]) == ("Linear", 2, 2, 1, 2)


def test_depth_leaves_times_as_they_are() -> None:
    core = load_core(training_step())
    whole = paths(modules(core))
    for depth in range(3):
        table = modules(core, depth=depth)
        shown = {path: times for path, times in whole.items() if len(path.split("/")) <= depth}
        assert paths(table) == shown | {"": whole[""]}
    assert "2 modules deeper than 1 are part of the lines above them" in modules(core, depth=1).notes
    assert not any("deeper" in note for note in modules(core, depth=2).notes)


def test_sort() -> None:
    core = load_core(training_step())
    named = lambda table: [name for name in table["module"] if name.startswith("Linear")]  # noqa: E731
    assert named(modules(core)) == ["Linear_0", "Linear_1"]
    assert named(modules(core, sort="time")) == ["Linear_1", "Linear_0"]


def test_small_modules_are_merged_not_lost() -> None:
    core = load_core(training_step())
    table = modules(core, min_percent=25)
    check_sums(core.everything, table)
    assert paths(table)["Net_0/(2 below 25 %)"] == (30.003, 302.0)
    assert paths(modules(core, min_percent=100))["(1 below 100 %)"] == (33.003, 603.0)


def test_linked_only() -> None:
    table = modules(load_core(training_step()), linked_only=True)
    assert NO_LAUNCH not in table["module"]
    assert paths(table)[""] == (440.003, 603.0)
    assert "left out" in table.notes[0]


def test_calls_of_one_instance_at_one_place_are_one_line() -> None:
    first, second = (
        [module("A_0", ts, 50), module("B_0", ts + 1, 20), *work(ts + 2, 4, i)] for i, ts in ((1, 0), (2, 60))
    )
    elsewhere = [module("B_0", 0, 20, tid=3), *work(1, 8, 3, tid=3)]
    rows = modules(load_core(first + second + elsewhere)).records()
    assert [(row["path"], row["calls"], row["total_us"], row["uid"]) for row in rows] == [
        ("", 0, 16.0, None),
        ("A_0", 2, 8.0, 0),
        ("A_0/B_0", 2, 8.0, 1),
        ("B_0", 1, 8.0, 8),
    ]


def test_recomputed_modules_take_the_place_of_what_they_repeat() -> None:
    core = load_core(
        [
            module("Net_0", 0, 100),
            module("Block_0", 10, 50),
            module("Linear_0", 12, 20),
            op("aten::addmm", 13, 10, Sequence_number=1),
            *work(14, 5, 1),
            op("AddmmBackward0", 200, 90, BACKWARD, Sequence_number=1, Fwd_thread_id=1),
            span("python_function", "torch/utils/checkpoint.py(9): recompute_fn", 201, 60, 100, BACKWARD),
            module("Block_0", 202, 50, BACKWARD),
            module("Linear_0", 203, 20, BACKWARD),
            op("aten::addmm", 204, 10, BACKWARD, Sequence_number=1),
            *work(205, 6, 2, BACKWARD),
            *work(270, 30, 3, BACKWARD),
            # A call at the same instant, of the same name, is not what is repeated.
            module("Other_0", 202, 50, 3),
            module("Block_0", 202, 50, 3),
        ]
    )
    assert core.recompute.any()
    table = modules(core)
    assert paths(table) == {
        "": (11.0, 30.0),
        "Net_0": (11.0, 30.0),
        "Net_0/Block_0": (11.0, 30.0),
        "Net_0/Block_0/Linear_0": (11.0, 30.0),
    }
    assert list(table["calls"]) == [0, 1, 2, 2]


def test_of_several_forward_ops_the_first_one_counts() -> None:
    ends = [("s", 1, 1, 51), ("f", 1, BACKWARD, 100), ("s", 2, 3, 1), ("f", 2, BACKWARD, 100)]
    core = load_core(
        [
            *({"ph": ph, "cat": "fwdbwd", "id": i, "pid": 100, "tid": tid, "ts": ts} for ph, i, tid, ts in ends),
            module("Late_0", 50, 20),
            op("aten::mm", 51, 10, Sequence_number=5),
            module("Early_0", 0, 20, tid=3),
            op("aten::mm", 1, 10, tid=3, Sequence_number=5),
            op("MmBackward0", 100, 50, BACKWARD, Sequence_number=5, Fwd_thread_id=1),
            *work(101, 2, 2, BACKWARD),
        ]
    )
    assert len(core.autograd.forward) == 2
    assert paths(modules(core)) == {"": (0.0, 2.0), "Early_0": (0.0, 2.0)}


def test_order_and_first_calls() -> None:
    """By time, whatever the order of threads; a window shows its own calls."""
    calls = [(100, "B_0", 1), (0, "A_0", 3), (50, "B_0", 3), (200, "A_0", 1), (20, "C_0", 1)]
    core = load_core(
        [
            event
            for i, (ts, name, tid) in enumerate(calls)
            for event in (module(name, ts, 9, tid), *work(ts + 1, 1, i + 1, tid))
        ]
    )
    assert [(row["module"], row["uid"]) for row in modules(core).records()[1:]] == [("A_0", 3), ("C_0", 12), ("B_0", 6)]
    late = core.window(after_ns=100_000, under="B_0")
    (row,) = modules(late).records()[1:]
    assert (row["module"], row["uid"], row["calls"], row["instances"]) == ("B_0", 0, 1, 1)


def test_a_module_inside_a_backward_op_takes_its_own_work() -> None:
    core = load_core(
        [
            module("A_0", 0, 20),
            op("aten::mm", 1, 10, Sequence_number=1),
            *work(2, 1, 1),
            op("MmBackward0", 100, 50, BACKWARD, Sequence_number=1, Fwd_thread_id=1),
            *work(101, 2, 2, BACKWARD),
            module("Hook_0", 110, 20, BACKWARD),
            *work(111, 4, 3, BACKWARD),
        ]
    )
    assert paths(modules(core)) == {"": (5.0, 2.0), "A_0": (1.0, 2.0), "Hook_0": (4.0, 0.0)}


def test_a_backward_op_of_nobody_counts_for_the_module_that_runs_it() -> None:
    """As where a module runs a whole training step, the loss outside of its model."""
    core = load_core(
        [
            op("aten::mm", 1, 10, Sequence_number=1),
            module("Trainer_0", 50, 200),
            op("MmBackward0", 100, 50, Sequence_number=1, Fwd_thread_id=1),
            *work(101, 2, 2),
        ]
    )
    assert len(core.autograd.forward) == 1
    assert paths(modules(core)) == {"": (2.0, 0.0), "Trainer_0": (2.0, 0.0)}


def test_without_modules_or_gpu_events() -> None:
    table = modules(load_core(work(0, 5, 1)))
    assert paths(table) == {"": (5.0, 0.0), PYTORCH.outside_modules: (5.0, 0.0)}
    assert list(table.notes) == ["the trace has no nn.Module frames: record it with with_stack=True"]
    table = modules(load_core([module("A_0", 0, 5)]))
    assert len(table) == 0
    assert table.notes[0] == "the trace has no GPU events"
    assert len(modules(load_core([]))) == 0


def test_deep_nesting_and_long_names_stay_small() -> None:
    deep = [module(f"{'long' * 500}_{i}", i, 2 * 3000 - 2 * i) for i in range(2000)]
    table = modules(load_core([*deep, *work(2500, 5, 1)]))
    assert len(table) == 2001
    assert np.asarray(table["depth"]).tolist() == list(range(2001))
    assert max(map(len, table["path"])) < 5000
    assert set(table["total_us"]) == {5.0}


def test_a_module_may_be_called_as_our_own_lines_are() -> None:
    core = load_core([module(PYTORCH.outside_modules, 0, 10), *work(1, 5, 1), *work(20, 7, 2)])
    rows = modules(core).records()
    assert [(row["module"], row["uid"], row["total_us"]) for row in rows] == [
        (WHOLE, None, 12.0),
        (PYTORCH.outside_modules, 0, 5.0),
        (PYTORCH.outside_modules, None, 7.0),
    ]


@pytest.mark.parametrize("options", [{"by": "name"}, {"sort": "size"}])
def test_unknown_options(options: dict[str, Any]) -> None:
    with pytest.raises(AnalysisError, match='by is "instance" or "class"'):
        modules(load_core([]), **options)


# --- properties of all traces ----------------------------------------------------------------------------------


def ns(values: Any) -> list[int]:
    return [round(us * 1000) for us in values]


def check_sums(g: Core | Window, table: Table, linked_only: bool = False) -> None:
    """Every line with lines below it is their sum, forward and backward, and the first is all GPU time."""
    w = window_of(g)
    rows = w.linked_gpu_rows if linked_only else w.gpu_rows
    assert bool(len(table)) == bool(len(rows))
    if not len(table):
        return
    depth = np.asarray(table["depth"]).tolist()
    for name in ("forward_us", "backward_us", "optimizer_us", "total_us"):
        times = ns(table[name])
        open_lines: list[tuple[int, int]] = []
        sums: Counter[int] = Counter()
        for line, level in enumerate(depth):
            while open_lines and open_lines[-1][0] >= level:
                open_lines.pop()
            if open_lines:
                assert open_lines[-1][0] == level - 1
                sums[open_lines[-1][1]] += times[line]
            open_lines.append((level, line))
        assert all(times[line] == total for line, total in sums.items())
    assert ns(table["total_us"])[0] == int(w.core.columns.dur_ns[rows].sum())
    passes = zip(*(ns(table[f"{name}_us"]) for name in PASSES), strict=True)
    assert ns(table["total_us"]) == [sum(times) for times in passes]


def plainly(core: Core) -> Times:
    """The same by walking from every GPU event by itself, with no regard for cost or recomputation."""

    def path(node: Node) -> str:
        chain = [*reversed([above for above in node.ancestors if above.kind == Kind.Module]), node]
        return "/".join(call.name.removeprefix("nn.Module: ") for call in chain)

    def charged(gpu: Node) -> tuple[str, bool]:
        for node in gpu.ancestors:
            if node.kind == Kind.Module:
                return path(node), False
            inside = (
                [(f.start_ns, f.row, f.modules[-1]) for f in node.forward if f.modules] if node.kind == Kind.Op else []
            )
            if inside:
                return path(min(inside, key=lambda one: one[:2])[2]), True
        return "", False

    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for gpu in core.find("gpu"):
        where, backward = charged(gpu)
        for place in {"", *("/".join(where.split("/")[: i + 1]) for i in range(where.count("/") + 1))}:
            found[place][backward] += gpu.dur_ns
    return {place: (times[0], times[1]) for place, times in found.items()}


def places(table: Table) -> Times:
    """Path -> times, of modules and the whole; the optimizer's is forward work here."""
    return {
        row["path"]: (round((row["forward_us"] + row["optimizer_us"]) * 1000), round(row["backward_us"] * 1000))
        for row in table.records()
        if row["uid"] is not None or row["depth"] == 0
    }


@st.composite
def module_traces(draw: st.DrawFn) -> list[Event]:
    """Modules, ops and launches on two threads, some of them linked as passes of training, among other events."""
    found: list[Event] = []
    kinds = st.sampled_from(["module", "module", "op", "forward", "backward", "work", "work"])
    for i in range(draw(st.integers(1, 25))):
        ts, dur, tid = draw(st.integers(0, 60)), draw(st.integers(1, 60)), draw(st.sampled_from([1, 2]))
        kind = draw(kinds)
        number = {"Sequence_number": draw(st.integers(0, 3))} | ({"Fwd_thread_id": 1} if kind == "backward" else {})
        if kind == "module":
            found.append(module(draw(st.sampled_from(["A_0", "A_1", "B_0", "B"])), ts, dur, tid))
        elif kind == "work":
            found += work(ts, draw(st.integers(0, 9)), i, tid)
        else:
            found.append(op(draw(st.sampled_from(["f", "g"])), ts, dur, tid, **({} if kind == "op" else number)))
    return found + draw(st.lists(other_events(), max_size=5))


OPTIONS = st.fixed_dictionaries(
    {
        "by": st.sampled_from(["instance", "class"]),
        "sort": st.sampled_from(["model", "time"]),
        "depth": st.none() | st.integers(0, 4),
        "linked_only": st.booleans(),
        "min_percent": st.sampled_from([0, 0, 10, 100]),
    }
)


@given(traces() | module_traces(), OPTIONS)
def test_parts_make_up_the_whole(trace: Any, options: dict[str, Any]) -> None:
    core = load_core(trace)
    check_sums(core, modules(core, **options), options["linked_only"])


@given(module_traces())
def test_equal_to_a_plain_reading(trace: list[Event]) -> None:
    core = load_core(trace)
    table = modules(core)
    if len(table):
        assert places(table) == plainly(core)


@given(module_traces(), st.integers(0, 60))
def test_windows_that_partition_the_trace_partition_all_times(trace: list[Event], cut: int) -> None:
    core = load_core(trace)
    start = core.columns.start_ns
    check_partition(
        core, [core.everything.narrowed(part, "part") for part in (start < cut * 1000, start >= cut * 1000)]
    )


def check_partition(core: Core, windows: list[Window]) -> None:
    """Times of windows add up to those of the trace, place by place."""
    parts = [modules(window) for window in windows]
    for window, part in zip(windows, parts, strict=True):
        check_sums(window, part)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for part in parts:
        for path, times in places(part).items():
            sums[path] = [sum(pair) for pair in zip(sums[path], times, strict=True)]
    assert {path: tuple(times) for path, times in sums.items()} == places(modules(core))


def steps_and_rest(core: Core) -> Iterator[Window]:
    for step in sorted(set(core.step.tolist())):
        yield core.everything.narrowed(core.step == step, f"row {step}")


@parametrize("path", chosen_traces())
def test_real_traces(path: Path) -> None:
    core = loaded(path)
    table = modules(core)
    for options in ({}, {"by": "class"}, {"sort": "time", "depth": 2}, {"linked_only": True}, {"min_percent": 1}):
        check_sums(core, modules(core, **options), bool(options.get("linked_only")))
    check_partition(core, list(steps_and_rest(core)))
    check_against_attribution(core, table)
    if len(core.columns) < 25_000 and not core.recompute.any() and len(table):
        assert places(table) == plainly(core)


def check_against_attribution(core: Core, table: Table) -> None:
    """What modules of a name have for themselves is charged to the name, and what they have at all lies below it."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    above: list[str] = []
    brackets = {PYTORCH.outside_modules: NO_MODULE}
    for row in table.records():
        if row["depth"] == 0:
            continue
        del above[row["depth"] - 1 :]
        if row["uid"] is not None:
            name, time = f"nn.Module: {row['module']}", round(row["total_us"] * 1000)
            own[name] += time
            whole[name] += time * (name not in above)
            if above:
                own[above[-1]] -= time
            above.append(name)
        elif row["depth"] == 1:
            own[brackets.get(row["module"], row["module"])] += round(row["total_us"] * 1000)
    charged = attribution(core, level="module")
    for times, column in ((own, "exclusive_sum_us"), (whole, "inclusive_sum_us")):
        found = {name: time for name, time in zip(charged["name"], ns(charged[column]), strict=True) if time}
        assert +times == {name: time for name, time in found.items() if times is own or not name.startswith("(")}


RESNET = [path for path in kineto_traces() if path.name.startswith("resnet-ddp-checkpointing")]


@parametrize("path", RESNET)
def test_checkpointed_model_is_one_tree(path: Path) -> None:
    table = modules(loaded(path))
    known = [row for row in table.records() if row["uid"] is not None]
    assert [row["module"] for row in known if row["depth"] == 1] == ["DistributedDataParallel_0"]
    assert len({row["module"] for row in known}) == len(known)


# --- truth ------------------------------------------------------------------------------------------------------
