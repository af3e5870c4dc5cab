"""Whether a kernel can be the work of an op, by what both are called: a check of joins that go by number and order."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Mask

_ANY = ""
_OPS: tuple[tuple[str, str], ...] = (
    ("communication", r"nccl|rccl|c10d|all_?reduce|all_?gather|reduce_scatter|record_param_comms"),
    ("moe", r"moe|expert|topk|sorttokens|grouped|align_block"),
    ("attention", r"attention|attn|fmha|mla_|sdpa"),
    ("norm", r"norm"),
    ("rope", r"rotary|rope|apply_qk"),
    ("gemm", r"(?:^|::|_)(?:mm|bmm|addmm|baddbmm|matmul|linear)\b|gemm|scaled_mm|(?:^|::)linear"),
    ("copy", r"copy|clone|contiguous|::(?:to|_to_copy|cat|stack|fill_|zero_|zeros|index|gather|embedding|arange)|"
             r"index_|store_cache|and_cache|scatter|cast"),
    ("elementwise", r"silu|gelu|relu|::(?:mul|add|sub|div|neg|exp|sigmoid|tanh|where|pow|clamp|sqrt)_?\b"),
    ("reduce", r"argmax|::(?:sum|mean|max|min|cumsum|softmax|_softmax)\b"),
)  # fmt: skip
"""Kind of an op -> its name; the first that fits counts."""
_KERNELS = {
    "GEMM": "gemm", "Normalization": "norm", "RoPE": "rope", "MoE": "moe", "Elementwise": "elementwise",
    "Memory Ops": "copy", "Communication": "communication", "Reduction": "reduce",
}  # fmt: skip
"""Category of a kernel -> its kind; those of attention all begin with the word, or hold it."""
_SMALL = frozenset(("elementwise", "copy", "reduce", _ANY))
_RUNS = {
    "gemm": frozenset(("gemm",)) | _SMALL,
    "attention": frozenset(("attention", "gemm", "rope")) | _SMALL,
    "norm": frozenset(("norm",)) | _SMALL,
    "rope": frozenset(("rope", "norm")) | _SMALL,
    "moe": frozenset(("moe", "gemm", "norm")) | _SMALL,
    "communication": frozenset(("communication",)) | _SMALL,
    "copy": _SMALL,
    "elementwise": frozenset(("norm",)) | _SMALL,
    "reduce": frozenset(("moe", "norm")) | _SMALL,
}
"""Kind of an op -> kinds of kernels that it runs."""


def _op_kind(op: str | None) -> str:
    return next((kind for kind, pattern in _OPS if re.search(pattern, op, re.I)), _ANY) if op else _ANY


def _kernel_kinds(names: Sequence[str]) -> list[str]:
    found = kernel_categories([(name, "") for name in names])
    return ["attention" if "ttention" in one else _KERNELS.get(one, _ANY) for one in found]


def _coded(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The different texts, and of each its position among them."""
    codes: dict[str, int] = {}
    at = np.array([codes.setdefault(one, len(codes)) for one in texts], np.int64)
    return list(codes), at


def _fits(names: Sequence[str], ops: Sequence[str | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How well each different kernel fits each different op: 0 not at all, 1 perhaps, 3 by its kind; and places."""
    kernels, kernel = _coded(names)
    different, op = _coded([one or "" for one in ops])
    table = np.ones((len(kernels), len(different)), np.int64)
    kinds = _kernel_kinds(kernels)
    for column, one in enumerate(different):
        kind = _op_kind(one)
        for row, found in enumerate(kinds):
            if kind == _ANY:
                continue
            table[row, column] = 0 if found not in _RUNS[kind] else 3 if found == kind else 1
    return table, kernel, op


def conflicts(names: Sequence[str], ops: Sequence[str | None]) -> Mask:
    """For each kernel and its op whether the kernel cannot be the op's work."""
    table, kernel, op = _fits(names, ops)
    return table[kernel, op] == 0


def scores(
    kinds: Sequence[int], names: Sequence[str], of_kinds: Sequence[int], ops: Sequence[str | None]
) -> np.ndarray:
    """How well each GPU event fits each captured call; 0 where it cannot be its work."""
    table, kernel, op = _fits(names, ops)
    is_kernel, launches = np.array(kinds) == Kind.Kernel, np.array(of_kinds) == Kind.Kernel
    return np.where(is_kernel[:, None] == launches[None, :], table[kernel][:, op], 0)
