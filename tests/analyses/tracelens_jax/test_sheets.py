"""TraceLens's tables of a JAX profile made by hand, with known answers."""

from __future__ import annotations

import math

import plain_xplane as plain
import pytest
from made_hlo import F32, computation, dot_dims, instruction, program, shape
from plain_xplane import Plane, block

from tracelens_graph.analyses.tracelens_jax.launchers import xla_summary
from tracelens_graph.analyses.tracelens_jax.sheets import SHEETS, jax_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.loading import load_core
from tracelens_graph.table import Table

US = 1_000_000
"""Picoseconds in a microsecond."""
PRED = 1

Work = tuple[str, int, int, str]
"""A kernel or copy: name, duration in us, number of its GPU, what launched it ("" for what no launch is there of)."""


def programs() -> Plane:
    """A product that XLA writes itself, a choice by truth values and a scalar, a copy, and a product with splits."""
    plane = Plane("/host:metadata")
    proto = program(
        "jit_f", 2,
        computation(
            1, "fused_dot", 13,
            instruction(11, "p0", "parameter", shape(F32, 4, 8)),
            instruction(12, "p1", "parameter", shape(F32, 8, 16)),
            instruction(13, "dot.1", "dot", shape(F32, 4, 16), [11, 12], more=dot_dims([1], [0])),
        ),
        computation(
            2, "main", 27,
            instruction(21, "x", "parameter", shape(F32, 4, 8)),
            instruction(22, "w", "parameter", shape(F32, 8, 16)),
            instruction(23, "gemm_fusion_dot.1", "fusion", shape(F32, 4, 16), [21, 22], calls=[1],
                        op_name="jit(f)/mlp/dot_general", more=block(11, "kCustom")),
            instruction(24, "scale", "parameter", shape(F32)),
            instruction(25, "mask", "parameter", shape(PRED, 4, 16)),
            instruction(26, "select.2", "select", shape(F32, 4, 16), [25, 24, 23]),
            instruction(27, "copy.5", "copy", shape(F32, 4, 16), [26]),
        ),
    )  # fmt: skip
    plane.program(3, "jit_f(3)", proto)
    return plane


def profile(*work: tuple[Work, str]) -> Core:
    """A profile with some work, one after the other, each with the name of its instruction ("" for none)."""
    gpus, host = [Plane("/device:GPU:0"), Plane("/device:GPU:1")], Plane("/host:CPU")
    lines: list[list[bytes]] = [[], []]
    launches = []
    for at, ((name, dur, gpu, launch), hlo) in enumerate(work, 1):
        told: dict[str, int | str] = {"hlo_op": f"&{hlo}", "program_id": 3} if hlo else {}
        if name.startswith("Mem"):
            told[f"{name[:6].lower()}_details"] = "kind:Unknown size:64 dest:2"
        lines[gpu].append(gpus[gpu].event(name, (100 + 50 * at) * US, dur * US, correlation_id=at, **told))
        if launch:
            launches.append(host.event(launch, 10 * at * US, 2 * US, correlation_id=at))
    for gpu, events in zip(gpus, lines, strict=True):
        gpu.line(7, "Stream #7(Kernel)", 1000, *events)
    host.line(11, "python", 1000, host.event("PjitFunction(f)", 0, 140 * US), *launches)
    return load_core(plain.written(programs(), *gpus, host))


LAUNCH = "hipLaunchKernel"
MIXED = (
    (("gemm_fusion_dot_1", 20, 0, LAUNCH), "gemm_fusion_dot.1"),
    (("splitk_reduce", 5, 0, LAUNCH), "gemm_fusion_dot.1"),
    (("select_2", 4, 0, LAUNCH), "select.2"),
    (("copy_5", 3, 0, LAUNCH), "copy.5"),
    (("MemsetD8", 2, 0, "hipMemsetD8Async"), ""),
    (("__amd_rocclr_fillBufferAligned.kd", 1, 0, "hipMemsetAsync"), "select.2"),
    (("MemcpyD2D", 6, 1, "hipMemcpyDtoDAsync"), ""),
    (("lonely", 7, 1, ""), ""),
)
"""Kernels, copies and fills on two GPUs."""


@pytest.fixture(scope="module")
def core() -> Core:
    return profile(*MIXED)


@pytest.fixture(scope="module")
def tables(core: Core) -> dict[str, Table]:
    return jax_tables(core)


def test_a_kernel_is_none_by_what_it_does_not_by_its_name(tables: dict[str, Table]) -> None:
    rows = {(row["gpu_pid"], row["type"]): row["time ms"] for row in tables["gpu_timeline"].records()}
    assert [rows[1, one] for one in ("computation_time", "exposed_memcpy_time")] == [0.035, 0]
    assert [rows[2, one] for one in ("computation_time", "exposed_memcpy_time")] == [0.007, 0.006]
    mean = {row["type"]: row["time ms"] for row in tables["gpu_events_averages"].records()}
    assert [mean[one] for one in ("computation_time", "busy_time")] == [0.021, 0.024]
    names = [name for (name, *_), _ in MIXED if not name.startswith("Mem")]
    assert tables["kernel_launchers"]["name"] == names


def test_each_kernel_has_its_instruction_place_and_latency(tables: dict[str, Table]) -> None:
    first, *_, last = tables["kernel_launchers"].records()
    assert (first["op category"], first["pid"], first["tid"]) == ("GEMM", 1, 7)
    assert (first["Input Dims"], first["Input type"]) == ([[4, 8], [8, 16]], ["f32", "f32"])
    assert (first["Input Strides"], first["Concrete Inputs"]) == ([[8, 1], [16, 1]], [])
    assert first["GPU_kernel_launch_latency"] == 140
    (details,) = first["kernel_details"]
    assert details == {
        "name": "gemm_fusion_dot_1", "dur": 20.0, "custom_call_target": "NA",
        "operands": ["f32[4,8]{1,0}", "f32[8,16]{1,0}"], "outputs": "f32[4,16]{1,0}",
        "metadata": "jit(f)/mlp/dot_general",
    }  # fmt: skip
    assert (last["name"], last["pid"], last["Input Dims"]) == ("lonely", 2, [])
    assert math.isnan(last["GPU_kernel_launch_latency"])
    assert last["kernel_details"][0]["operands"] == "NA"


def test_all_operands_are_told_and_counted(tables: dict[str, Table]) -> None:
    row = next(row for row in tables["df_xla_perf"].records() if row["name"] == "select_2")
    assert row["Input Dims"] == [[4, 16], [], [4, 16]]
    assert row["Input type"] == ["pred", "f32", "f32"]
    assert row["kernel_details"][0]["operands"] == ["pred[4,16]{1,0}", "f32[]", "f32[4,16]{1,0}"]
    assert row["total_input_bytes"] == 4 * 16 + 4 + 4 * 16 * 4


def test_time_adds_up_over_names_categories_and_operands(tables: dict[str, Table]) -> None:
    for name in ("kernel_launchers_summary", "kernel_launchers_summary_by_category"):
        assert sum(tables[name]["total_direct_kernel_time_ms"]) == pytest.approx(0.040)
        assert sum(tables[name]["time ms per gpu"]) == pytest.approx(0.020)
        assert sum(tables[name]["Count"]) == 6
        assert tables[name]["Cumulative Percentage (%)"][-1] == pytest.approx(100)
    assert sum(tables["kernel_launchers_unique_args"]["total_direct_kernel_time_sum"]) == pytest.approx(40)
    by_category = tables["kernel_launchers_summary_by_category"]
    assert list(by_category["op category"]) == ["GEMM", "Uncategorized Events/XLA"]


def test_products_that_xla_writes_itself_have_costs(tables: dict[str, Table]) -> None:
    assert [name for name in tables if name not in SHEETS] == ["op_gemm"]
    main, helper = tables["op_gemm"].records()
    assert [main[f"param: {size}"] for size in ("B", "M", "N", "K")] == [1, 4, 16, 8]
    assert (main["name"], main["param: bias"], main["param: dtype_A_B"]) == ("gemm_fusion_dot_1", False, ["f32"] * 2)
    assert main["GFLOPS_first"] == 2 * 4 * 16 * 8 / 1e9
    assert main["TFLOPS/s_mean"] == pytest.approx(2 * 4 * 16 * 8 / 20e-6 / 1e12)
    assert main["thread_name_first"] == "Stream #7(Kernel)"
    assert (helper["name"], helper["GFLOPS_first"], helper["Kernel Time (µs)_sum"]) == ("splitk_reduce", None, 5.0)


def test_kernels_of_one_name_share_the_work_of_their_instruction() -> None:
    part = (("gemm_fusion_dot_1", 20, 0, LAUNCH), "gemm_fusion_dot.1")
    (row,) = jax_tables(profile(part, part))["op_gemm"].records()
    assert (row["name_count"], row["GFLOPS_first"]) == (2, 4 * 16 * 8 / 1e9)


def test_numbers_behind_names_are_dropped_and_no_other_digits() -> None:
    names = ["fusion", "fusion_1", "fusion_12", "fusion_3.kd", "add.1.2", "conv2d", "k_2_end"]
    core = profile(*(((name, 1, 0, LAUNCH), "select.2") for name in names))
    table = xla_summary(core.everything)
    found = dict(zip(table["name"], table["Count"], strict=True))
    assert found == {"fusion": 3, "fusion.kd": 1, "add": 1, "conv2d": 1, "k_2_end": 1}


def test_a_window_holds_its_kernels_alone(core: Core) -> None:
    tables = jax_tables(core.window(device=1))
    assert set(tables["gpu_timeline"]["gpu_pid"]) == {2}
    assert tables["kernel_launchers"]["name"] == ["lonely"]
    assert list(tables) == list(SHEETS)


def test_a_profile_without_gpu_work_has_empty_tables() -> None:
    tables = jax_tables(profile())
    assert list(tables) == list(SHEETS)
    assert [len(table) for table in tables.values()] == [0] * len(SHEETS)


def test_columns_are_declared(tables: dict[str, Table]) -> None:
    assert {name: [one for one in table.columns if one not in table.about] for name, table in tables.items()} == {
        name: [] for name in tables
    }
