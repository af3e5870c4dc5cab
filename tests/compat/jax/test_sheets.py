"""TraceLens's tables of a JAX profile made by hand, with known answers."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest
from handmade_jax import LAUNCH, MIXED, profile

from tracelens_graph.compat.jax.tables import SHEETS, jax_tables, xla_summary
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.graph_file import write_graph
from tracelens_graph.tables.table import Table


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(profile(*MIXED))


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
    (row,) = jax_tables(load_core(profile(part, part)))["op_gemm"].records()
    assert (row["name_count"], row["GFLOPS_first"]) == (2, 4 * 16 * 8 / 1e9)


def test_numbers_behind_names_are_dropped_and_no_other_digits() -> None:
    names = ["fusion", "fusion_1", "fusion_12", "fusion_3.kd", "add.1.2", "conv2d", "k_2_end"]
    core = load_core(profile(*(((name, 1, 0, LAUNCH), "select.2") for name in names)))
    table = xla_summary(core.everything)
    found = dict(zip(table["name"], table["Count"], strict=True))
    assert found == {"fusion": 3, "fusion.kd": 1, "add": 1, "conv2d": 1, "k_2_end": 1}


def test_a_window_holds_its_kernels_alone(core: Core) -> None:
    tables = jax_tables(core.window(device=1))
    assert set(tables["gpu_timeline"]["gpu_pid"]) == {2}
    assert tables["kernel_launchers"]["name"] == ["lonely"]
    assert list(tables) == list(SHEETS)


def test_a_profile_without_gpu_work_has_empty_tables() -> None:
    tables = jax_tables(load_core(profile()))
    assert list(tables) == list(SHEETS)
    assert [len(table) for table in tables.values()] == [0] * len(SHEETS)


def test_columns_are_declared(tables: dict[str, Table]) -> None:
    assert {name: [one for one in table.columns if one not in table.about] for name, table in tables.items()} == {
        name: [] for name in tables
    }


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bytes_give_tables_or_one_line(seed: int) -> None:
    content, random = bytearray(profile(*MIXED)), Random(seed)
    for _ in range(8):
        content[random.randrange(len(content))] = random.randrange(256)
    try:
        core = load_core(bytes(content))
    except TraceError:
        return
    assert {*SHEETS} <= {*jax_tables(core)}


def test_a_saved_graph_has_the_same_tables(core: Core, tables: dict[str, Table], tmp_path: Path) -> None:
    write_graph(core, tmp_path / "saved.tlg")
    again = jax_tables(load_core(tmp_path / "saved.tlg"))
    assert {name: repr(table.records()) for name, table in again.items()} == {
        name: repr(table.records()) for name, table in tables.items()
    }
