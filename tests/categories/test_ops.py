"""Categories of ops of PyTorch and instructions of JAX."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from corpus import GOLDENS, needs_goldens
from tracelens_graph.categories.kernels import KERNEL_RULES, kernel_category
from tracelens_graph.categories.ops import OP_RULES, Rule, call_category, op_category
from tracelens_graph.compat.jax.rules import JAX_KEYS, JAX_RULES, XLA
from tracelens_graph.op_table import OP_TABLE

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>(int)"
REDUCE = "void at::native::reduce_kernel<512, 1>(at::native::ReduceOp<float>)"


@pytest.mark.parametrize(
    ("name", "kernel", "category"),
    [
        ("aten::mm", ELEMENTWISE, "GEMM"),
        ("aten::convolution_backward", "", "CONV_bwd"),
        ("aten::cudnn_convolution", "", "CONV_fwd"),
        ("aten::miopen_batch_norm_backward", "", "NORM_bwd"),
        ("triton_poi_fused_add_0", REDUCE, "triton"),
        ("record_param_comms", "ncclDevKernel", "record_param_comms"),
        ("mine::op", ELEMENTWISE, "elementwise"),
        ("mine::op", REDUCE, "reduce"),
        ("mine::op", "void at::native::reduce_elementwise_kernel()", "elementwise"),
        ("mine::op", "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<x>()", "multi_tensor_apply"),
        ("mine::op", "void at::native::vectorized_gather_kernel<16, long>()", "other"),
        ("mine::op", "at::native::elementwise_kernel()", "other"),
        ("mine::op", "void at::native::a\nelementwise", "elementwise"),
        ("mine::op", "", "other"),
        ("", "", "other"),
        ("aten::mm ", "", "other"),
        ("my_triton", "", "other"),
    ],
)
def test_rules_in_their_order(name: str, kernel: str, category: str) -> None:
    assert op_category(name, kernel) == category


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("cudaGraphLaunch", "graph"),
        ("hipGraphLaunch", "graph"),
        ("cudaLaunchKernel", "runtime"),
        ("cudaGraphInstantiate", "runtime"),
    ],
)
def test_calls(name: str, category: str) -> None:
    assert call_category(name) == category


def test_names_are_those_of_the_table_of_ops() -> None:
    assert OP_RULES.names["aten::mm"] == OP_TABLE["aten::mm"].category == "GEMM"
    assert OP_TABLE["aten::exp"].category is None
    assert "aten::exp" not in OP_RULES.names
    assert {name: OP_TABLE[name].category for name in OP_RULES.names} == OP_RULES.names
    assert sum(entry.category is not None for entry in OP_TABLE.values()) == len(OP_RULES.names)


def test_rules_of_ones_own_leave_the_default_as_it_is() -> None:
    mine = replace(
        OP_RULES,
        names={**OP_RULES.names, "aten::mm": "dense"},
        by_name=(Rule(re.compile("mine::"), "mine"), *OP_RULES.by_name),
        other="unknown",
    )
    assert op_category("aten::mm", "", mine) == "dense"
    assert op_category("mine::op", ELEMENTWISE, mine) == "mine"
    assert op_category("x", "", mine) == "unknown"
    assert op_category("aten::mm", "") == "GEMM"
    assert op_category("mine::op", "") == "other"


def kernels(cell: str) -> set[str]:
    """Names in a cell of kernel details, which stand there in the order of time, not of launch."""
    plain = re.sub(r"np\.float64\(([^()]*)\)", r"\1", cell).replace("nan", "None")
    return {kernel["name"] for kernel in ast.literal_eval(plain or "[]")}


def reference_rows(pattern: str) -> Iterator[dict[str, str]]:
    assert GOLDENS is not None
    csv.field_size_limit(10**9)
    for flavour in ("default", "full"):
        for path in sorted(GOLDENS.glob(f"{flavour}/**/{pattern}.csv")):
            with path.open(newline="") as file:
                yield from csv.DictReader(file)


@needs_goldens
@pytest.mark.parametrize("table", ["ops_unique_args", "unified_perf_summary"])
def test_every_operation_in_the_reference_tables(table: str) -> None:
    rows = list(reference_rows(table))
    assert len(rows) > 400
    wrong = {
        (row["name"], row["op category"])
        for row in rows
        if row["op category"]
        not in {op_category(row["name"], k) for k in kernels(row["kernel_details_summary"]) or {""}}
    }
    assert wrong == set()


@needs_goldens
def test_every_launcher_of_a_kernel_in_the_reference_tables() -> None:
    launched: dict[tuple[str, str], set[str]] = {}
    for row in reference_rows("kernel_summary"):
        if row.get("Parent cpu_op"):
            launched.setdefault((row["Parent cpu_op"], row["Parent op category"]), set()).add(row["Kernel name"])
    assert len(launched) > 40
    for (name, category), names in launched.items():
        if category in ("graph", "runtime"):
            assert call_category(name) == category
        else:
            # One of its kernels is the first.
            assert category in {op_category(name, kernel) for kernel in names}, name


@needs_goldens
def test_every_list_of_categories_in_the_reference_tables() -> None:
    """An operation that the name does not tell has the categories that its kernels tell."""
    by_name = {name: {category} for name, category in OP_RULES.names.items()}
    for row in reference_rows("ops_unique_args"):
        by_name.setdefault(row["name"], set()).add(row["op category"])
    for row in reference_rows("ops_summary"):
        assert set(ast.literal_eval(row["Categories"])) <= by_name[row["name"]], row["name"]


KEYS = [(category, word) for category, words in JAX_KEYS.items() for word in words]

OURS = {
    "GEMM": "GEMM", "FA BWD": "Flash Attention Backward", "FA FWD": "Flash Attention Forward", "Conv": "Convolution",
    "Communication rccl/nccl": "Communication",
}  # fmt: skip
"""What we call TraceLens's categories; of its others, words say who wrote a kernel and not what it does."""


@pytest.mark.parametrize(("category", "word"), KEYS)
def test_every_word_tells_by_kernel_and_by_instruction(category: str, word: str) -> None:
    assert kernel_category(f"void {word}3<float>", "fusion.7", JAX_RULES) == category
    if not category.startswith("FA"):
        assert kernel_category("some_kernel", f"{word}12 hlo::custom-call(other)", JAX_RULES) == category


@pytest.mark.parametrize(("category", "word"), [(category, word) for category, word in KEYS if category in OURS])
def test_our_rules_know_the_words_too(category: str, word: str) -> None:
    assert kernel_category(f"void {word}3<float>", "", KERNEL_RULES) == OURS[category]


@pytest.mark.parametrize(
    ("name", "op", "category"),
    [
        ("ck_tile::FmhaFwdKernel", "te_fused_attn_forward_ffi.10 hlo::custom-call(attention forward)", "FA FWD"),
        ("gemm_fmha_fwd", "", "FA FWD"),
        ("__amd_rocclr_fillBufferAligned.kd", "te_fused_attn_backward_ffi.12", "TE"),
        ("__amd_rocclr_fillBufferAligned.kd", "fusion.1 hlo::fusion(elementwise)", XLA),
        ("Cijk_Ailk_Bljk", "cudnn-conv hlo::custom-call(convolution forward)", "Conv"),
        ("wrapped_convert", "wrapped_convert.1 hlo::fusion(elementwise)", XLA),
        ("fusion_3", "fusion.3 hlo::fusion(dot)", "GEMM"),
        ("fusion_3", "fusion.3 hlo::fusion(reduce)", XLA),
    ],
)
def test_attention_comes_first_then_the_instruction_then_the_name(name: str, op: str, category: str) -> None:
    assert kernel_category(name, op, JAX_RULES) == category


def test_kernels_of_nameless_attention_are_attention_by_their_instruction() -> None:
    assert kernel_category("kernel_func", "te_fused_attn_forward_ffi.1") == "Flash Attention Forward"
    assert kernel_category("kernel_func", "te_fused_attn_backward_ffi.1") == "Flash Attention Backward"


def test_categories_are_described() -> None:
    assert set(JAX_RULES.categories) == {*JAX_KEYS, JAX_RULES.other}
