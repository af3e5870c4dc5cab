"""Ops made for parts of fused work: where they stand, what they are charged, whose arguments they have."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from handmade import call, gpu, span

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_summary import unmodelled
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.shared.gpu_work import as_tracelens_counts
from tracelens_graph.graph.graph import Graph
from tracelens_graph.loading.one import load_core
from tracelens_graph.loading.pseudo_ops import with_pseudo_ops
from tracelens_graph.schema import FIRST_MADE_UID, GPU_KINDS, Kind, OwnerRule
from tracelens_graph.stores.graph_file import write_graph

BF16 = "c10::BFloat16"
AWQ = "fused_moe_kernel_gptq_awq"
TRTLLM = ["bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256_swiGlu", "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256"]
MOE = {"Input_Dims": [[32, 64], [32, 8], []], "Input_type": [BF16, BF16, ""]}


def loaded(*events: dict[str, Any]) -> Graph:
    return load_core({"traceEvents": list(events)})


def launched(at: float, correlation: int, kernel: str, dur: float = 5) -> list[dict[str, Any]]:
    return [call(at, correlation, "hipModuleLaunchKernel"), gpu(at + 500, dur, correlation, kernel)]


def moe(*kernels: str, name: str = "vllm::moe_forward", **args: Any) -> Graph:
    events = [span("cpu_op", "aten::linear", 0, 300), span("cpu_op", name, 10, 200, **(MOE | args))]
    for at, kernel in enumerate(kernels):
        events += launched(20 + 10 * at, at + 1, kernel)
    return loaded(*events, span("cpu_op", "aten::relu", 400, 20), *launched(405, 99, "relu"))


def parts(core: Graph) -> dict[str, list[str]]:
    """Pseudo op -> kernels that are charged to it."""
    c, found = core.columns, dict[str, list[str]]()
    for row in core.gpu_rows[c.owner_rule[core.gpu_rows] == OwnerRule.pseudo_op].tolist():
        found.setdefault(core.names[c.name[c.owner[row]]], []).append(core.names[c.name[row]])
    return found


def check_forest(core: Graph) -> None:
    """Rows are in pre-order, with parents, ends and depths that agree."""
    c = core.columns
    for row in range(len(c)):
        parent = int(c.parent[row])
        assert parent < row
        assert c.depth[row] == (c.depth[parent] + 1 if parent >= 0 else 0)
        assert parent < 0 or c.last[row] <= c.last[parent]
        assert row <= c.last[row] < len(c)
    assert np.all(np.isin(c.kind[c.owner[c.owner >= 0]], [Kind.Op]))
    assert len(set(c.uid.tolist())) == len(c)


def test_the_products_of_a_layer_of_experts() -> None:
    up, down, last = (
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
        "_matmul_ogs_NNT_x",
        "_finalize_matmul_scatter",
    )
    core = moe("router", up, down, last)
    check_forest(core)
    assert parts(core) == {
        "pseudo_op::moe_triton_unfused_up": [up],
        "pseudo_op::moe_triton_unfused_down": [down],
        "pseudo_op::moe_triton_unfused_finalize_matmul_scatter": [last],
    }
    made = next(node for node in core.find(Kind.Op, "pseudo_op::moe_triton_unfused_up"))
    assert made.uid >= FIRST_MADE_UID
    assert made.shapes["Input Dims"] == [[32, 64], [32, 8], []]
    assert [node.name for node in made.ancestors][:2] == ["vllm::moe_forward", "aten::linear"]
    assert [node.name for node in made.children[0].children] == [up]
    row, launch = core.row(made.uid), core.row(made.uid) + 1
    assert (core.columns.start_ns[row], core.columns.dur_ns[row]) == (core.columns.start_ns[launch], 2000)


def test_time_is_neither_won_nor_lost() -> None:
    core = moe("router", "_matmul_ogs_1", "_matmul_ogs_2")
    c = core.columns
    top = core.row(0)
    assert int(core.gpu_sum_ns[top]) == 15_000
    table = unified_perf_summary(core)
    found = dict(zip(table["name"], table["Kernel Time (µs)_sum"], strict=True))
    assert found["pseudo_op::moe_triton_unfused_up"] == found["pseudo_op::moe_triton_unfused_down"] == 5
    assert sum(found.values()) == float(c.dur_ns[core.gpu_rows].sum()) / 1e3 == 20
    assert all(len(unified(core).costs[code].params) > 4 for code in unified(core).codes.values() if code >= 0)


def test_one_more_time_makes_no_more() -> None:
    core = moe("_matmul_ogs_1", "_matmul_ogs_2")
    assert with_pseudo_ops(core) is core
    plain = moe("gemm", "other")
    assert (len(plain.columns), plain.columns.uid.max()) == (9, 8)


def test_kernels_of_one_launch_get_an_op_each() -> None:
    """As in a replayed graph: the op stands above the kernel itself, without host time."""
    core = loaded(
        span("cpu_op", "vllm::moe_forward", 0, 100, **MOE),
        call(10, 1, "hipGraphLaunch"),
        *(gpu(500 + 10 * at, 5, 1, name) for at, name in enumerate(("sort", "_matmul_ogs_a", "_matmul_ogs_b"))),
    )
    check_forest(core)
    assert parts(core) == {
        "pseudo_op::moe_triton_unfused_up": ["_matmul_ogs_a"],
        "pseudo_op::moe_triton_unfused_down": ["_matmul_ogs_b"],
    }
    made = core.find(Kind.Op, "pseudo_op::moe_triton_unfused_up")[0]
    assert (core.columns.dur_ns[core.row(made.uid)], made.parent.name) == (0, "hipGraphLaunch")


@pytest.mark.parametrize(
    ("donor", "kernels", "expected"),
    [
        ("vllm::rocm_aiter_fused_moe", ["aiter::MoeSorting", "void aiter::fmoe_bf16", "aiter::fmoe_quant"],
         {"pseudo_op::moe_aiter_fused_1stage": ["void aiter::fmoe_bf16"]}),
        ("vllm::rocm_aiter_fused_moe", ["aiter::fmoe_a", "aiter::fmoe_b"], {}),
        ("vllm::outplace_fused_experts", ["moe_align", AWQ, "silu", AWQ],
         {"pseudo_op::moe_gptq_awq_up": [AWQ], "pseudo_op::moe_gptq_awq_down": [AWQ]}),
        ("vllm::moe_forward", TRTLLM,
         {"pseudo_op::moe_trtllm_up": TRTLLM[:1], "pseudo_op::moe_trtllm_down": TRTLLM[1:]}),
        ("aten::mm", ["_matmul_ogs_1"], {}),
    ],
)  # fmt: skip
def test_rules_by_kernels(donor: str, kernels: list[str], expected: dict[str, list[str]]) -> None:
    assert parts(moe(*kernels, name=donor)) == expected


def test_latent_attention_has_all_kernels_of_its_frame() -> None:
    frame = "aiter/mla.py(123): mla_decode_fwd"
    stage = span(
        "cpu_op", "aiter::mla_decode_stage1_asm_fwd", 20, 20, Input_Dims=[[4, 16, 576], [64, 1, 1, 576], [4, 16, 512]],
        Input_type=[BF16] * 3,
    )  # fmt: skip
    events = [stage, *launched(25, 1, "mla_a16w16"), span("cpu_op", "aiter::mla_reduce_v1", 50, 20),
              *launched(55, 2, "reduce"), *launched(80, 3, "metadata")]  # fmt: skip
    text = "decode[bs=4 tok=4 sk=400 sqsq=4 sqsk=400]"
    for frames, expected in (([span("python_function", frame, 10, 90)], 15_000), ([], 5_000)):
        core = loaded(span("user_annotation", text, 0, 200), *frames, *events)
        check_forest(core)
        made = core.find(Kind.Op, "pseudo_mla_decode_fwd")
        assert [int(core.gpu_sum_ns[core.row(one.uid)]) for one in made] == [expected]
        # 2 (576 + 512) FLOPs for each of 16 heads and 400 pairs.
        cost = unified(core).costs[unified(core).codes[core.row(made[0].uid)]]
        assert cost.flops == 16 * (576 + 512) * 2 * 400


@pytest.mark.parametrize(
    ("kernel", "mode", "pairs"),
    [
        ("qk_other", "swa", 4 * 128),
        ("fused_compress_attn_D512", "csa", 4 * 128 + 4 * 256),
        ("hca_compress_forward_D512", "hca", 4 * 128 + 4 * 8),
    ],
)
def test_paged_attention_of_deepseek_v4(kernel: str, mode: str, pairs: int) -> None:
    """Four requests of 1,024 keys: a window of 128, and entries of a cache compressed 4 to 1 or 128 to 1."""
    core = loaded(
        span("user_annotation", "decode[bs=4 tok=4 sk=4096 sqsq=4 sqsk=4096]", 0, 300),
        span("cpu_op", "aiter::v4_attention_with_output", 10, 200, Input_Dims=[[4, 4096]], Input_type=[BF16]),
        *launched(12, 1, "qk_norm_rope_H32_D512_RD64_flydsl"),
        *launched(20, 2, kernel),
        span("python_function", "aiter/v4/paged_decode.py(33): sparse_attn_v4_paged_decode", 40, 100),
        *launched(50, 3, "pa_split"),
        *launched(60, 4, "pa_reduce"),
    )
    check_forest(core)
    assert parts(core) == {f"pseudo_v4_paged_decode_{mode}": ["pa_split", "pa_reduce"]}
    (made,) = core.find(Kind.Op, f"pseudo_v4_paged_decode_{mode}")
    found = unified(core)
    assert found.costs[found.codes[core.row(made.uid)]].flops == 2 * 32 * (512 + 512) * pairs


def test_stages_have_the_arguments_of_the_op_above() -> None:
    core = loaded(
        span("cpu_op", "aiter::fused_moe_", 0, 100, **MOE),
        span("python_function", "aiter/ops/flydsl/moe_kernels.py(7): flydsl_moe_stage1", 10, 20),
        *launched(15, 1, "moe_gemm1"),
        span("cpu_op", "sglang_profiler::flydsl_moe_stage2_17", 40, 20),
        *launched(45, 2, "moe_gemm2"),
    )
    check_forest(core)
    assert {node.name: node.shapes["Input Dims"] for node in core.find(Kind.Op, "/^pseudo/")} == dict.fromkeys(
        ("pseudo_op::moe_flydsl_stage1", "pseudo_op::moe_flydsl_stage2"), MOE["Input_Dims"]
    )


def test_tables_in_tracelens_layout_charge_the_fused_op() -> None:
    core = moe("_matmul_ogs_1", "_matmul_ogs_2")
    for kept in (True, False):
        theirs = as_tracelens_counts(core.everything, kept)
        c = theirs.core.columns
        assert {theirs.core.names[c.name[row]] for row in c.owner[theirs.core.gpu_rows]} == {
            "vllm::moe_forward",
            "aten::relu",
        }
        names = unified_perf_summary(theirs)["name"]
        assert ("pseudo_op::moe_triton_unfused_up" in names) == kept
    assert np.isin(core.columns.kind[core.gpu_rows], GPU_KINDS).all()


def test_files_of_a_graph_keep_them(tmp_path: Any) -> None:
    core = moe("_matmul_ogs_1", "_matmul_ogs_2")
    write_graph(core, tmp_path / "g.tlg")
    again = load_core(tmp_path / "g.tlg")
    assert json.dumps(parts(again)) == json.dumps(parts(core))
    assert again.trace_id == core.trace_id


@needs_corpus
@pytest.mark.parametrize(
    ("trace", "alone", "joined"),
    [
        ("b200/eager-serving.json.gz", 88, 88),
        ("inference/vllm-decode/graph-replay.json.gz", 3, 99),
        ("inference/sglang-decode/graph-replay.json.gz", 1, 99),
    ],
)
def test_most_of_the_time_of_servers_has_a_model(trace: str, alone: int, joined: int) -> None:
    assert CORPUS is not None
    path = CORPUS / "tracelens" / trace
    captures = path.with_name("capture")
    shares = [
        100 - sum(unmodelled(load_core(path, capture=one))["percent"])
        for one in (None, captures if captures.exists() else None)
    ]
    assert [int(share) for share in shares] == [pytest.approx(alone, abs=2), pytest.approx(joined, abs=2)]
