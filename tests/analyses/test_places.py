"""Where in the program GPU time belongs: levels of attribution, lines of Python, call stacks, passes without scopes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plain_xplane as plain
import pytest
from call_trees import FORWARD, frame, load, op
from call_trees import launch as launched
from handmade import call, gpu, span
from handmade_jax import mlp, training_profile
from plain_xplane import Plane

from corpus import chosen_traces, loaded, parametrize, xplane_files
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.ops.passes import forward_backward
from tracelens_graph.analyses.places.attribution import LEVELS, NO_LAUNCH, attribution
from tracelens_graph.analyses.places.modules import modules
from tracelens_graph.analyses.places.python_lines import NO_LINE, python_lines
from tracelens_graph.analyses.shared.call_stacks import NOT_FOUND, entry_points
from tracelens_graph.errors import AnalysisError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed
from tracelens_graph.graph.programs import CompiledProgram, CompiledPrograms
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.stores.graph_file import read_graph, write_graph
from tracelens_graph.tables.table import Table


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    device = cat == "kernel"
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 0 if device else 1, "tid": tid, "ts": ts, "dur": dur, "args": args,
    }  # fmt: skip


def launch(ts: float, correlation: int, name: str = "cudaLaunchKernel") -> dict[str, Any]:
    return event("cuda_runtime", name, ts, 1, correlation=correlation)


def kernel(name: str, ts: float, dur: float, correlation: int, stream: int = 7) -> dict[str, Any]:
    return event("kernel", name, ts, dur, stream, correlation=correlation, stream=stream, device=0)


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(
        [
            event("python_function", "nn.Module: Net_0", 0, 100),  # 0
            event("cpu_op", "aten::linear", 1, 30),  # 1
            event("cpu_op", "aten::linear", 2, 20),  # 2: nested in its namesake
            launch(3, 1),
            launch(25, 2),  # in the outer linear only
            event("cpu_op", "aten::relu", 40, 5),  # 5
            launch(41, 3, "cuLaunchKernel"),
            launch(60, 4),  # in no op
            kernel("gemm", 200, 10, 1),
            kernel("gemm", 205, 10, 2, stream=8),  # overlaps the one before
            kernel("relu", 300, 4, 3),
            kernel("other", 310, 2, 4),
            kernel("early", 100, 5, 99),  # not launched here
            event("cpu_op", "aten::size", 70, 1),
        ]
    )


def rows(core: Core, level: str) -> dict[str, tuple[float, ...]]:
    names = ("count", "inclusive_sum_us", "inclusive_busy_us", "exclusive_sum_us", "exclusive_busy_us", "uid")
    return {row["name"]: tuple(row[name] for name in names) for row in attribution(core, level).records()}


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("module", {"nn.Module: Net_0": (1, 26, 21, 26, 21, 0), NO_LAUNCH: (0, 5, 5, 5, 5, None)}),
        ("op", {
            "aten::linear": (2, 20, 15, 20, 15, 1), "aten::relu": (1, 4, 4, 4, 4, 5), "(no op)": (0, 2, 2, 2, 2, None),
            NO_LAUNCH: (0, 5, 5, 5, 5, None),
        }),
        ("root_op", {
            "aten::linear": (1, 20, 15, 20, 15, 1), "aten::relu": (1, 4, 4, 4, 4, 5), "(no op)": (0, 2, 2, 2, 2, None),
            NO_LAUNCH: (0, 5, 5, 5, 5, None),
        }),
        ("launcher", {
            "aten::linear": (2, 20, 15, 20, 15, 1), "aten::relu": (1, 4, 4, 4, 4, 5),
            "cudaLaunchKernel": (1, 2, 2, 2, 2, 7), NO_LAUNCH: (0, 5, 5, 5, 5, None),
        }),
        ("runtime", {
            "cudaLaunchKernel": (3, 22, 17, 22, 17, 3), "cuLaunchKernel": (1, 4, 4, 4, 4, 6),
            NO_LAUNCH: (0, 5, 5, 5, 5, None),
        }),
        ("kernel", {
            "gemm": (2, 20, 15, 20, 15, 8), "early": (1, 5, 5, 5, 5, 12), "relu": (1, 4, 4, 4, 4, 10),
            "other": (1, 2, 2, 2, 2, 11),
        }),
    ],
)  # fmt: skip
def test_known_answers(core: Core, level: str, expected: dict[str, tuple[float, ...]]) -> None:
    assert rows(core, level) == expected
    assert list(rows(core, level)) == list(expected), "largest first, what nobody is charged with last"


def test_names_of_lines_are_gone_through_once() -> None:
    """However many lines there are."""
    passes = 0

    class Names(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            nonlocal passes
            passes += 1
            return super().__iter__()

    def passes_for(lines: int) -> int:
        nonlocal passes
        core = load_core([
            event for n in range(lines) for event in (
                span("python_function", f"train.py({n}): step", 100 * n, 90), call(100 * n + 10, n + 1),
                gpu(100 * n + 30, 10, n + 1),
            )
        ])  # fmt: skip
        core, passes = changed(core, names=Names(core.names)), 0
        assert len(python_lines(core)) == lines
        return passes

    assert passes_for(40) == passes_for(10) >= 1


def test_one_name(core: Core) -> None:
    [row] = attribution(core, "op", "aten::linear").records()
    assert row["inclusive_sum_us"] == 20
    assert len(attribution(core, "op", re.compile("aten::"))) == 2
    assert len(attribution(core, "op", "aten::size")) == 0, "no GPU work"


def test_unknown_levels_are_said(core: Core) -> None:
    with pytest.raises(AnalysisError, match="no level 'layer'; there are module, root_op, op"):
        attribution(core, "layer")


@parametrize("path", chosen_traces())
def test_exclusive_times_add_up_to_all_gpu_time(path: Path) -> None:
    core = loaded(path)
    total = int(core.columns.dur_ns[core.gpu_rows].sum())
    unlinked = core.gpu_rows[core.columns.parent[core.gpu_rows] < 0]
    for level in LEVELS:
        table = attribution(core, level)
        exclusive = np.rint(np.asarray(table["exclusive_sum_us"]) * 1000).astype(np.int64)
        assert exclusive.sum() == total, level
        assert (np.asarray(table["inclusive_sum_us"]) >= np.asarray(table["exclusive_sum_us"])).all(), level
        assert (np.asarray(table["inclusive_busy_us"]) <= np.asarray(table["inclusive_sum_us"])).all(), level
        lone = [row["inclusive_sum_us"] for row in table.records() if row["name"] == NO_LAUNCH]
        assert (sum(lone) * 1000 == pytest.approx(core.columns.dur_ns[unlinked].sum())) or level == "kernel"


@parametrize("path", chosen_traces())
def test_inclusive_time_of_ops_equals_a_walk_over_the_tree(path: Path) -> None:
    core = loaded(path)
    walked: dict[str, int] = {}
    for row in core.gpu_rows.tolist():
        above = {node.name for node in core.nodes_at([row])[0].ancestors if node.kind.name == "Op"}
        for name in above:
            walked[name] = walked.get(name, 0) + int(core.columns.dur_ns[row])
    table = attribution(core, "op")
    found = {row["name"]: round(row["inclusive_sum_us"] * 1000) for row in table.records() if row["uid"] is not None}
    assert found == walked


NOBODYS = [
    "torch/_tensor.py(34): wrapped",
    "torch/functional.py(77): broadcast_tensors",
    "torch/nn/functional.py(1693): relu",
    "/usr/lib/python3.12/site-packages/torch/utils/_contextlib.py(120): decorate_context",
    "torch/overrides.py(1720): handle_torch_function",
    "torch/_functorch/_aot_autograd/runtime_wrappers.py(311): runtime_wrapper",
    "torch/_inductor/output_code.py(466): __call__",
    "triton/backends/nvidia/driver.py(512): __call__",
    "torch/distributed/c10d_logger.py(81): wrapper",
    "mine/helpers.py(3): decorate_context",
    "aiter/jit/core.py(900): wrapper_custom",
    "sgl/ops.py(12): dispatch_wrapper",
    "torch/nn/modules/module.py(1751): _call_impl",
    "torch/_ops.py(1123): __call__",
]


@pytest.mark.parametrize("passed_by", NOBODYS)
def test_frames_that_are_no_users_are_passed_by(passed_by: str) -> None:
    core = load({FORWARD: [frame("train.py(3): step", frame(passed_by, op("aten::thing", launched())))]})
    assert entry_points(core, rows_of_kind(core.columns, (Kind.Op,))) == ["train.py(3): step"]


@pytest.mark.parametrize(
    "own",
    [
        "functional.py(3): run",
        "mine/overrides.py(9): patch",
        "my_torch/_tensor.py(1): f",
        "model.py(2): decorate_contexts",
    ],
)
def test_frames_of_the_user_stay(own: str) -> None:
    core = load({FORWARD: [frame("train.py(3): step", frame(own, op("aten::thing", launched())))]})
    assert entry_points(core, rows_of_kind(core.columns, (Kind.Op,))) == [own]


def test_nobodys_frames_alone_are_no_place() -> None:
    core = load({FORWARD: [frame(NOBODYS[0], frame("<built-in method apply>", op("aten::thing", launched())))]})
    assert entry_points(core, rows_of_kind(core.columns, (Kind.Op,))) == [NOT_FOUND]


US = 1_000_000


def recorded(frame: str = "") -> Core:
    """Two runs of a product that comes from model.py:7, and one of a fusion of which no line is told."""
    known, gpu, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    known.program(3, "jit_f(3)", mlp())
    calls = [host.event(frame, 0, 900 * US)] if frame else []
    work = []
    for at, (name, duration) in enumerate((("dot.3", 20), ("fusion.4", 5), ("dot.3", 30)), 1):
        told = {"hlo_op": f"&{name}", "program_id": 3}
        calls += [
            host.event(name, at * 100 * US, 50 * US, **told),
            host.event("hipLaunchKernel", at * 100 * US + US, US, correlation_id=at),
        ]
        work.append(gpu.event(f"k{at}", at * 100 * US + 10 * US, duration * US, correlation_id=at, **told))
    gpu.line(7, "Stream #7", 1000, *work)
    host.line(11, "python", 1000, *calls)
    return load_core(plain.written(known, gpu, host))


def lines(table: Table) -> list[tuple[object, ...]]:
    return [(row["name"], row["frames"], row["gpu_events"], row["gpu_sum_us"]) for row in table.records()]


def test_an_instruction_tells_its_line() -> None:
    found = python_lines(recorded())
    assert lines(found) == [("model.py:7", 2, 2, 50.0), (NO_LINE, 0, 1, 5.0)]
    core = recorded()
    uid = int(found["uid"][0])
    assert core.names[core.columns.name[core.row(uid)]] == "dot.3"
    assert found["uid"][1] is None


def test_a_frame_of_python_counts_before_it() -> None:
    assert lines(python_lines(recorded("$train.py:3 main"))) == [("train.py(3): main", 1, 3, 55.0)]
    assert lines(python_lines(recorded("$train.py:3 main"), without="train")) == lines(python_lines(recorded()))


def test_lines_that_are_not_wanted_are_passed_over() -> None:
    assert lines(python_lines(recorded(), without="model.py")) == [(NO_LINE, 0, 3, 55.0)]


def test_saved_graphs_keep_lines(tmp_path: Path) -> None:
    core = recorded()
    write_graph(core, tmp_path / "one.tlg")
    again = read_graph(tmp_path / "one.tlg")
    assert again.programs == core.programs
    assert lines(python_lines(again)) == lines(python_lines(core))


@pytest.mark.parametrize("source", [np.full(3, 2, np.uint8), np.ones(4, np.uint8)])
def test_damaged_lines_are_told(tmp_path: Path, source: np.ndarray) -> None:
    core = recorded()
    core.programs = CompiledPrograms((CompiledProgram("f", "x"),), np.full(3, 3, np.uint8), ("a.py:1",), source)
    write_graph(core, tmp_path / "one.tlg")
    with pytest.raises(TraceError, match="damaged"):
        read_graph(tmp_path / "one.tlg")


def test_graphs_with_other_lines_differ() -> None:
    code, of = np.full(2, 3, np.uint8), np.array([1, 2], np.uint8)
    one = CompiledPrograms((), code, ("a.py:1", "b.py:2"), of)
    assert one == CompiledPrograms((), code, ("b.py:2", "a.py:1"), of[::-1])
    assert one != CompiledPrograms((), code, ("b.py:2", "a.py:1"), of)
    assert one != CompiledPrograms((), code)


@parametrize("path", xplane_files())
def test_real_profiles(path: Path) -> None:
    found = python_lines(loaded(path))
    told = sum(row["percent"] for row in found.records() if ".py:" in row["name"])
    assert told > (90 if "te-" in path.name else 40)
    assert sum(found["gpu_sum_us"]) == pytest.approx(loaded(path).columns.dur_ns[loaded(path).gpu_rows].sum() / 1000)


@parametrize("path", [path for path in xplane_files() if "te-" in path.name])
def test_a_report_names_the_line_of_the_dearest_kernel(path: Path) -> None:
    (attention, *_) = [one for one in verdict(loaded(path)) if one.topic == "kernels"]
    assert (
        ", mostly of te_fused_attn_backward_ffi.18, from attention.py:1110]; they reach 7.1 % of their roof"
        in attention.text
    )
    assert str(attention.evidence["line"]).endswith("/jax/attention.py:1110")


UNSCOPED = training_profile().replace(b"jvp(mlp)", b"jit(mlp)")
"""Two steps, each with 25 us of the forward and 33 us of the backward pass."""

BEGIN = "by the names of instructions: "
Tell = Callable[[Core | Window], Table]


def told(table: Table) -> list[str]:
    return [note.removeprefix(BEGIN) for note in table.notes if note.startswith(BEGIN)]


@pytest.mark.parametrize("tell", [modules, forward_backward])
def test_passes_without_scopes(tell: Tell) -> None:
    core = load_core(UNSCOPED)
    assert told(tell(core)) == ["forward 50.000 us, backward 66.000 us"]
    assert told(tell(core.window(step=1))) == ["forward 25.000 us, backward 33.000 us"]
    assert any("named scope" in note for note in tell(core).notes)


@pytest.mark.parametrize("tell", [modules, forward_backward])
def test_passes_with_scopes_stand_in_the_table(tell: Tell) -> None:
    table = tell(load_core(training_profile()))
    assert len(table)
    assert not any("scope" in note for note in table.notes)
    assert not told(table)


@pytest.mark.parametrize("tell", [modules, forward_backward])
def test_the_file_may_be_gone(tell: Tell, tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(UNSCOPED)
    core = load_core(path)
    path.unlink()
    table = tell(core)
    assert table.notes
    assert not told(table)


@parametrize("path", [path for path in xplane_files() if "attention" in path.name])
def test_passes_of_a_real_profile_without_scopes(path: Path) -> None:
    assert told(modules(loaded(path))) == ["forward 4,531.040 us, backward 7,602.545 us"]
