"""TraceLens's categories of JAX kernels, and what our own rules say of the same names."""

from __future__ import annotations

import pytest

from tracelens_graph.categories.kernels import KERNEL_RULES, kernel_category
from tracelens_graph.compat.jax.rules import JAX_KEYS, JAX_RULES, XLA

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
