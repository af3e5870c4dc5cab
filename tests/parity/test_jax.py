"""JAX profiles beside what TraceLens says of them: every cell of its tables, and why some differ."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
import pytest
from parity.cases import Jax, compared_jax, jax_profiles, parameters
from parity.comparing import ORDER, ROW, Comparison, Row, parsed
from parity.departures import account, departures

from tracelens_graph.compat.jax.tables import jax_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

PROFILES = parameters(jax_profiles())


@pytest.mark.parametrize("profile", PROFILES)
def test_sheets_equal_the_reference(profile: Jax) -> None:
    tables = compared_jax(profile)
    assert sum(comparison.cells for comparison in tables) == 940
    assert account(departures(), [(str(profile), comparison) for comparison in tables]).unexplained == []
    assert sum(map(equal_cells, tables)) == 800
    ours, theirs = profile.tables(), profile.reference
    assert set(ours) == set(theirs)
    assert {name: list(table.columns) for name, table in ours.items()} == {n: list(r[0]) for n, r in theirs.items()}


def equal_cells(comparison: Comparison) -> int:
    """Cells of TraceLens's table that ours has; of a row that ours lacks, it has none."""
    differ = 0
    for one in comparison.differences:
        if one.column != ORDER and comparison.pairs[one.pair][0]:
            differ += len(comparison.columns) if one.column == ROW else 1
    return comparison.cells - differ


def pairs(profile: Jax, *tables: str) -> Iterator[tuple[Row, Row]]:
    """Rows of both sides, TraceLens's first."""
    for comparison in compared_jax(profile):
        if comparison.table in tables:
            yield from comparison.pairs


# --- why cells differ ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_gpus_stand_by_their_number(profile: Jax) -> None:
    gpus = list(dict.fromkeys(profile.tables()["gpu_timeline"]["gpu_pid"]))
    assert gpus == sorted(gpus) == sorted({int(row["gpu_pid"]) for row in profile.reference["gpu_timeline"]})


@pytest.mark.parametrize("profile", PROFILES)
def test_strides_are_those_of_the_layouts(profile: Jax) -> None:
    rows = 0
    for theirs, ours in pairs(profile, "kernel_launchers", "df_xla_perf"):
        (details,) = parsed(theirs["kernel_details"])
        for text, strides in zip(details["operands"], ours["Input Strides"], strict=True):
            dims, order = (ast.literal_eval(f"[{one}]") for one in re.findall(r"[\[{]([\d,]*)[\]}]", text))
            assert list(strides) == [prod(dims[d] for d in order[: order.index(at)]) for at in range(len(dims))]
            rows += 1
    assert rows == 25 + 10 + 15


@pytest.mark.parametrize("profile", PROFILES)
def test_details_tell_result_and_origin_and_else_what_tracelens_tells(profile: Jax) -> None:
    told = set()
    for theirs, ours in pairs(profile, "kernel_launchers", "df_xla_perf", "kernel_launchers_unique_args"):
        column = "kernel_details" if "kernel_details" in ours else "kernel_details_summary"
        (known,), (found,) = parsed(theirs[column]), ours[column]
        assert (known["outputs"], known["metadata"]) == ("NA", "NA")
        told.add((found["name"][:8], found["outputs"], found["metadata"]))
        assert {**found, "outputs": "NA", "metadata": "NA"} == {
            key: pytest.approx(value, abs=1e-6) if isinstance(value, float) else value for key, value in known.items()
        }
    assert {(name, outputs) for name, outputs, _ in told} == {
        ("Im3d2Col", "(bf16[1,5120,34,31,53]{4,3,2,1,0}, u8[7150336]{0})"),
        ("Cijk_Ail", "(bf16[1,5120,34,31,53]{4,3,2,1,0}, u8[7150336]{0})"),
        ("loop_tra", "bf16[5120,16,4]{2,1,0}"),
        ("input_tr", "bf16[55862,5120]{1,0}"),
        ("input_tr", "bf16[16,199680]{1,0}"),
    }
    assert {origin for name, _, origin in told if name == "Im3d2Col"} == {
        "jit(forward_3d_conv)/jit(main)/conv_general_dilated"
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_names_lose_the_number_behind_them(profile: Jax) -> None:
    theirs = {row["name"]: float(row["total_direct_kernel_time_sum"]) for row in profile.reference["xla_summary"]}
    table = profile.tables()["xla_summary"]
    ours = dict(zip(table["name"], table["total_direct_kernel_time_sum"], strict=True))
    together = theirs.pop("input_transpose_fusion_")
    theirs["input_transpose_fusion"] += together
    assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_convolution_has_all_its_channels(profile: Jax) -> None:
    """Each input element meets each position of the filter once: what the stride skips, padding makes up for."""
    (row,) = [ours for _, ours in pairs(profile, "op_conv") if ours["name"].startswith("Cijk")]
    _, channels, *space = row["param: input_shape"]
    filters, into, *window = row["param: filter_shape"]
    assert (channels, into, window) == (16, 16, [1, 2, 2])
    assert row["GFLOPS_first"] * 1e9 == 2 * prod(space) * channels * filters
    elements = sum(prod(row[f"param: {name}_shape"]) for name in ("input", "filter", "output"))
    assert row["Data Moved (MB)_first"] == 2 * elements / 2**20


@pytest.mark.parametrize("profile", PROFILES)
def test_work_counts_once(profile: Jax) -> None:
    helper, main = sorted((ours for _, ours in pairs(profile, "op_conv")), key=lambda row: row["GFLOPS_first"] or 0)
    assert helper["Kernel Time (µs)_sum"] < main["Kernel Time (µs)_sum"]
    assert [helper[name] for name in ("GFLOPS_first", "Data Moved (MB)_first", "FLOPS/Byte_first")] == [None] * 3
    assert helper["name_count"] == main["name_count"] == len(profile.graph.find(Kind.Op, "cudnn-conv.1.0"))
    for theirs, _ in pairs(profile, "op_conv"):
        assert float(theirs["GFLOPS_first"]) == 2.28810752


@pytest.mark.parametrize("profile", PROFILES)
def test_the_process_of_a_kernel_is_its_device(profile: Jax) -> None:
    c = profile.graph.columns
    (device,) = set(c.device[profile.graph.gpu_rows[c.kind[profile.graph.gpu_rows] == Kind.Kernel]].tolist())
    for _, ours in pairs(profile, "op_conv"):
        assert (ours["process_name_first"], ours["process_label_first"]) == (f"/device:GPU:{device}", "")


# --- where TraceLens ends with an exception --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed(corpus: Path) -> Core:
    """A profile with attention of TransformerEngine, of packed queries, keys and values."""
    return load_core(corpus / "tracelens/jax/te-fused-attention.xplane.pb")


def test_every_kernel_has_an_instruction_and_shapes(packed: Core) -> None:
    c, rows = packed.columns, packed.gpu_rows
    assert len(rows) == 150
    assert (c.owner[rows] >= 0).all()
    assert (c.kind[c.owner[rows]] == Kind.Op).all()
    launchers = jax_tables(packed)["kernel_launchers"]
    assert len(launchers) == 150
    assert sum(launchers["total_direct_kernel_time"]) == pytest.approx(c.dur_ns[rows].sum() / 1e3)
    assert all(launchers["Input Dims"])
    fusions = [node for node in packed.find(Kind.Op) if node.args["opcode"] == "fusion"]
    assert len(fusions) == 75
    assert all(node.args["Input Dims"][0] for node in fusions)


def test_attention_of_packed_queries_keys_and_values(packed: Core) -> None:
    tables = jax_tables(packed)
    assert [name for name in tables if name.startswith("op_")] == ["op_gemm", "op_fa_bwd", "op_fa_fwd", "op_te"]
    batch, length, heads, size = 2, 2048, 16, 128
    forward = 2 * 2 * batch * heads * length**2 * size // 2  # two products, half of them masked
    for name, flops in (("op_fa_fwd", forward), ("op_fa_bwd", forward * 5 // 2)):
        row = tables[name].records()[0]
        assert row["Input Dims_first"][0] == [batch, length, 3, heads, size]
        sizes = [row[f"param: {one}"] for one in ("B", "N_Q", "H_Q", "N_KV", "H_KV", "d_h_qk", "d_h_v")]
        assert sizes == [batch, length, heads, length, heads, size, size]
        assert (row["param: causal"], row["param: bias"], row["param: bytes_per_element"]) == (True, False, 2)
        assert row["GFLOPS_first"] == flops / 1e9
        assert row["name_count"] == 10
    assert np.isnan(tables["op_fa_bwd"]["TFLOPS/s_mean"]).tolist() == [False, True, True]
    assert np.isnan(tables["op_te"]["TFLOPS/s_mean"]).all()
    time = dict(zip(*(tables["kernel_launchers_summary_by_category"][one] for one in (
        "op category", "total_direct_kernel_time_ms")), strict=True))  # fmt: skip
    attention = sum(time[one] for one in ("FA FWD", "FA BWD", "TE"))
    assert attention / sum(time.values()) == pytest.approx(0.556, abs=5e-4)
