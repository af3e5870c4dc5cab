"""Mixture-of-experts layers of serving engines: fused, in two stages, the dispatch of tokens, and their routing.

A trace records how many tokens choose how many of how many experts, not which. The work is the same for every choice;
the weights that are read are not: the value is what uniform routing is expected to touch, and the range runs from all
tokens choosing the same experts to all choosing different ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.shared import bytes_of, given, total, vector_cost
from tracelens_graph.perf.model import CallContext, looks_inside
from tracelens_graph.perf.scalar_types import known


def experts_touched(experts: int, topk: int, tokens: int) -> float:
    """Expected number of experts that at least one token chooses, if each chooses `topk` of them at random.

    E (1 - ((E - k) / E)^M): an expert is left out by one token with probability (E - k) / E.
    """
    return experts * (1 - ((experts - topk) / experts) ** tokens)


@dataclass(frozen=True)
class Experts:
    """Sizes and types of a layer of experts.

    Attributes:
        tokens: tokens that are routed.
        hidden: width of a token.
        inter: width inside an expert.
        experts: number of experts.
        topk: experts per token.
        gated: whether the first product has a gate beside it (SwiGLU), of the same size.
        dtype: type of the tokens.
        dtype_weight: type of the weights; that of the tokens unless given.
        dtype_out: type of the result; that of the tokens unless given.
        weights_per_element: numbers in an element of the weights beyond what its type says (2: 4 bits in bytes).
        scaled: numbers of the weights that share a scale of a byte, as in MXFP4 (32) and NVFP4 (16); 0 for no scales.
        compute: type whose precision the matrix units work in; that of the tokens unless given.
    """

    tokens: int
    hidden: int
    inter: int
    experts: int
    topk: int
    gated: bool = True
    dtype: str = "bf16"
    dtype_weight: str = ""
    dtype_out: str = ""
    weights_per_element: int = 1
    scaled: int = 0
    compute: str = ""

    def cost(self, flops: int, matrix: int, rows: int | None, **shown: object) -> Cost:
        """A cost, given what does not depend on routing and the numbers in one expert's weights."""
        if max(self.tokens, self.hidden, self.inter, self.experts) >= 2**63:
            raise CannotModel("the sizes are not those of tensors")
        if not 1 <= self.topk <= self.experts:
            raise CannotModel(f"a token cannot choose {self.topk} of {self.experts} experts")
        weights = bytes_of(matrix, self.dtype_weight or self.dtype)
        value, spread = None, None
        if weights is not None and rows is not None:
            each = weights / self.weights_per_element + (matrix / self.scaled if self.scaled else 0)
            least, most = min(self.topk, self.tokens * self.topk), min(self.experts, self.tokens * self.topk)
            expected = min(max(experts_touched(self.experts, self.topk, self.tokens), least), most)
            value, *ends = (rows + round(count * each) for count in (expected, least, most))
            spread = (ends[0], ends[1])
        params = {
            "num_tokens": self.tokens,
            "hidden_dim": self.hidden,
            "inter_dim": self.inter,
            "num_experts": self.experts,
            "topk": self.topk,
            **shown,
            "input_dtype": self.dtype,
            "weight_dtype": self.dtype_weight or self.dtype,
            **({"output_dtype": self.dtype_out} if self.dtype_out else {}),
        }
        precision = known(self.compute or self.dtype).precision
        return Cost(flops, value, "matrix", precision, params, bytes_range=spread)


def fused_moe(layer: Experts) -> Cost:
    """Cost of a whole layer in one kernel.

    FLOPs = 2 M K N k (2 if gated) + 2 M K N k + M K (2k - 1) for M tokens of width K, k experts of width N each: both
    products, and the weighted sum of k results. Bytes = tokens read, results written, weights of the experts touched;
    what lies between the products stays on chip. Activation is left out, and scales where no name shows them.
    """
    one = layer.tokens * layer.hidden * layer.inter * layer.topk
    first = 2 if layer.gated else 1
    rows = layer.tokens * layer.hidden
    return layer.cost(
        2 * one * first + 2 * one + rows * (2 * layer.topk - 1),
        layer.hidden * layer.inter * (first + 1),
        total(bytes_of(rows, layer.dtype), bytes_of(rows, layer.dtype_out or layer.dtype)),
        gated=layer.gated,
    )


def moe_up(layer: Experts) -> Cost:
    """Cost of the first stage: every token times the weights of its experts.

    FLOPs = 2 M K N k (2 if gated). Bytes = tokens read once, M k rows of width N written, weights of the experts
    touched.
    """
    first = 2 if layer.gated else 1
    written = bytes_of(layer.tokens * layer.topk * layer.inter, layer.dtype_out or layer.dtype)
    return layer.cost(
        2 * layer.tokens * layer.hidden * layer.inter * layer.topk * first,
        layer.hidden * layer.inter * first,
        total(bytes_of(layer.tokens * layer.hidden, layer.dtype), written),
        gated=layer.gated,
    )


def moe_down(layer: Experts) -> Cost:
    """Cost of the second stage: what the first one wrote times the second weights, summed per token.

    FLOPs = 2 M N K k. Bytes = M k rows of width N read, tokens written, weights of the experts touched.
    """
    read = bytes_of(layer.tokens * layer.topk * layer.inter, layer.dtype)
    return layer.cost(
        2 * layer.tokens * layer.inter * layer.hidden * layer.topk,
        layer.inter * layer.hidden,
        total(read, bytes_of(layer.tokens * layer.hidden, layer.dtype_out or layer.dtype)),
    )


@dataclass(frozen=True)
class Stage:
    """Reads a layer of experts or a stage of one, by the positions of its parts among the arguments.

    Attributes:
        stage: what is computed: the whole layer ("fused"), its first stage ("up") or its second one ("down").
        by_rows: whether the rows between the stages show the width inside an expert; else both weights do.
        x: tokens, (M, K), or the rows that the first stage wrote, (M, k, N).
        w1: first weights, (E, N or 2 N, K).
        w2: second weights, (E, K, N); where the op gets but one of both, the other has the same position.
        choices: a tensor with k in its second dimension: chosen experts, their weights, rows written.
        topk: the number k itself, where it is given.
        out: tensor that takes the result, if there is one.
        weights: whether the precision is that of the weights, to which tokens are quantised in the kernel.
    """

    stage: Literal["fused", "up", "down"] = "fused"
    by_rows: bool = False
    x: int = 0
    w1: int = 1
    w2: int = 2
    choices: int = 3
    topk: int | None = None
    out: int | None = None
    weights: bool = False

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        read = _BY_ROWS[self.stage] if self.by_rows else _layer
        return _FORMULAS[self.stage](read(self, arguments))


def _three(arguments: Arguments, index: int) -> Tensor:
    """Weights of experts."""
    found = arguments.tensor(index)
    if len(found.shape) != 3 or not all(found.shape):
        raise CannotModel(f"argument {index} is no stack of matrices")
    return found


def _choices(layout: Stage, arguments: Arguments) -> int:
    if layout.topk is not None:
        topk = arguments.integer(layout.topk)
        if topk is None:
            raise CannotModel("how many experts a token chooses is not recorded")
        return topk
    shape = arguments.tensor(layout.choices).shape
    if len(shape) < 2:
        raise CannotModel("how many experts a token chooses is not recorded")
    return shape[1]


def _packing(hidden: int, stored: int) -> int:
    """Numbers per stored element, from the width of a token and that of the weights that it meets."""
    if hidden % stored or hidden // stored > 8:
        raise CannotModel("the widths of tokens and weights differ")
    return hidden // stored


def _layer(layout: Stage, arguments: Arguments) -> Experts:
    """Sizes from both weights: the second ones hold the true width of a token, the first ones a packed one."""
    x, w1, w2 = arguments.tensor(layout.x), _three(arguments, layout.w1), _three(arguments, layout.w2)
    experts, rows, stored = w1.shape
    tokens = x if layout.out is None else arguments.tensor(layout.out)
    if w2.shape[0] != experts or min(len(x.shape), len(tokens.shape)) < 2:
        raise CannotModel("tokens and weights do not fit together")
    hidden = w2.shape[1]
    packing = _packing(hidden, stored)
    inter = w2.shape[2] * packing
    if rows not in (inter, 2 * inter):
        raise CannotModel("first and second weights do not fit together")
    topk = _choices(layout, arguments)
    layer = Experts(tokens.shape[0], hidden, inter, experts, topk, rows == 2 * inter)
    return _typed(layer, layout, arguments, (x, w1), packing)


def _typed(
    layer: Experts, layout: Stage, arguments: Arguments, tensors: tuple[Tensor, Tensor], packing: int
) -> Experts:
    """A layer with the types of its tokens and weights."""
    x, weights = tensors
    out = arguments.optional(layout.out) if layout.out is not None else None
    return replace(
        layer,
        dtype=x.dtype,
        dtype_weight=weights.dtype,
        dtype_out=out.dtype if out is not None else "",
        weights_per_element=max(packing // known(weights.dtype).values, 1),
        compute=weights.dtype if layout.weights and known(weights.dtype).precision else "",
    )


def _up_by_rows(layout: Stage, arguments: Arguments) -> Experts:
    """CK-tile's first stage has no second weights: the width inside an expert is that of the rows it writes."""
    x, w1, out = arguments.tensor(layout.x), _three(arguments, layout.w1), _three(arguments, layout.choices)
    if len(x.shape) != 2:
        raise CannotModel("tokens and weights do not fit together")
    (tokens, hidden), (experts, rows, stored), (_, topk, inter) = x.shape, w1.shape, out.shape
    if rows not in (inter, 2 * inter):
        raise CannotModel("weights and result do not fit together")
    layer = Experts(tokens, hidden, inter, experts, topk, rows == 2 * inter)
    return _typed(layer, layout, arguments, (x, w1), _packing(hidden, stored))


def _down_by_rows(layout: Stage, arguments: Arguments) -> Experts:
    """The second stage reads rows, (M, k, N); where the first weights are given too, they show how N is packed."""
    x, w2 = _three(arguments, layout.x), _three(arguments, layout.w2)
    (tokens, topk, inter), (experts, hidden, stored) = x.shape, w2.shape
    if layout.w1 != layout.w2:
        packing = _packing(hidden, _three(arguments, layout.w1).shape[2])
        inter = stored * packing
        if x.shape[2] not in (inter, stored):
            raise CannotModel("rows and weights do not fit together")
    else:
        inter *= known(x.dtype).values
        packing = _packing(inter, stored)
    return _typed(Experts(tokens, hidden, inter, experts, topk), layout, arguments, (x, w2), packing)


_FORMULAS: Mapping[str, Callable[[Experts], Cost]] = {"fused": fused_moe, "up": moe_up, "down": moe_down}
_BY_ROWS: Mapping[str, Callable[[Stage, Arguments], Experts]] = {"up": _up_by_rows, "down": _down_by_rows}


def triton_call(arguments: Arguments, _: CallContext) -> Cost:
    """SGLang's `invoke_fused_moe_kernel`, once per stage: tokens, weights (E, N, K), …, result, …, choices (8).

    FLOPs = 2 R N K for R = M k rows. Bytes = tokens (first stage) or rows (second) read, rows written, weights of the
    experts touched.
    """
    a, weights, choices = arguments.tensor(0), _three(arguments, 1), arguments.tensor(8)
    if len(choices.shape) != 2 or len(a.shape) != 2:
        raise CannotModel("tokens or their choices are not a matrix")
    tokens, topk = choices.shape
    experts, n, stored = weights.shape
    k = a.shape[1]
    packing = _packing(k, stored)
    out = arguments.optional(3) or arguments.optional(2)
    layer = Experts(tokens, k, n, experts, topk)
    typed = _typed(layer, Stage(weights=True), arguments, (a, weights), packing)
    written = bytes_of(tokens * topk * n, out.dtype if out is not None else a.dtype)
    cost = typed.cost(2 * tokens * topk * n * k, n * k, total(bytes_of(a.elements, a.dtype), written))
    shown = {
        "m_work": tokens * topk, "num_tokens": tokens, "topk": topk, "N": n, "K": k, "num_experts": experts,
        "input_dtype": a.dtype, "weight_dtype": weights.dtype,
        "output_dtype": out.dtype if out is not None else a.dtype,
    }  # fmt: skip
    return replace(cost, params=shown)


_OGS = re.compile(r"matmul_ogs_[A-Z]+_(?:(?:mx)?[a-z]+\d+[a-z0-9]*?x){2}((?:mx)?[a-z]+\d+[a-z0-9]*)_\d+x")
"""The type of weights in names of triton_kernels' products, behind those of result and tokens:
`_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu`."""

_GATED = re.compile("swiglu|_glu|geglu", re.I)
_USUAL_CHOICES = 4


@looks_inside("TopK")
def ogs_call(arguments: Arguments, context: CallContext, *, stage: str) -> Cost:
    """A product of `vllm::moe_forward` by triton_kernels' `matmul_ogs`, as gpt-oss has them.

    The op records tokens, (M, K), and logits of the router, (M, E). k is an argument of the `TopK` below it, else that
    of gpt-oss. The width inside an expert is recorded nowhere: it is taken to be K, as in gpt-oss on one GPU.
    Costs are those of `moe_up` and `moe_down`; kernel names hold the types.
    """
    found = _OGS.search(" ".join(context.kernels))
    tokens, logits = _routed(arguments)
    topk = _choices_below(context)
    layer = Experts(tokens.shape[0], tokens.shape[1], tokens.shape[1], logits.shape[1], topk or _USUAL_CHOICES)
    gated = bool(_GATED.search(" ".join(context.kernels)))
    weights = _WEIGHT_TYPES.get(found[1], "") if found else ""
    scaled = _BLOCKS.get(found[1], 0) if found else 0
    cost = _FORMULAS[stage](replace(layer, gated=gated, dtype=tokens.dtype, dtype_weight=weights, scaled=scaled))
    return replace(cost, params={"gated": gated, **cost.params})


_WEIGHT_TYPES = {"mxfp4": "FP4", "bf16": "bf16", "fp16": "fp16", "fp8e4nv": "fp8", "fp8e5": "fp8", "fp8e4b8": "fp8"}
_BLOCKS = {"mxfp4": 32, "mxfp8": 32, "MxE4m3": 32, "MxE2m1": 32, "E2m1": 16}
"""Types of weights -> how many share a scale of a byte: 32 in OCP's microscaling formats, 16 in NVFP4."""


def _choices_below(context: CallContext) -> int | None:
    """k of the `TopK` below a call; None without one."""
    return context.inside["TopK"].integer(1) if "TopK" in context.inside else None


@looks_inside("TopK", grids=True)
def summed_call(arguments: Arguments, context: CallContext) -> Cost:
    """The k results of each token, weighted and summed: M K (2 k - 1) FLOPs, M k rows of width K read, M written.

    k is that of the products beside it: see `ogs_call` and `trtllm_call`.
    """
    tokens, logits = _routed(arguments)
    grids = ((found, grid) for name, grid in context.grids if (found := _TRTLLM.search(name)) and grid)
    up, grid = next(grids, (None, (0, 0)))
    if up is not None:
        topk = _choices_of_grid(tokens.shape[0], logits.shape[1], int(up[5]), grid[1])
    else:
        topk = _choices_below(context) or _USUAL_CHOICES
    moved = bytes_of(tokens.elements * (topk + 1), tokens.dtype)
    params = {"num_tokens": tokens.shape[0], "hidden_dim": tokens.shape[1], "topk": topk}
    return Cost(tokens.elements * (2 * topk - 1), moved, "vector", known(tokens.dtype).precision, params)


def _routed(arguments: Arguments) -> tuple[Tensor, Tensor]:
    tokens, logits = arguments.tensor(0), arguments.tensor(1)
    if len(tokens.shape) != 2 or len(logits.shape) != 2 or tokens.shape[0] != logits.shape[0]:
        raise CannotModel("tokens and the router's logits do not fit together")
    return tokens, logits


_TYPE = "MxE4m3|MxE2m1|E4m3|E2m1|Bfloat16|Fp16"
_TRTLLM = re.compile(rf"bmm_({_TYPE})_({_TYPE})({_TYPE})_Fp32_t(\d{{1,4}})x(\d{{1,4}})x\d.*_transOut_")
_TRTLLM_TYPES = {
    "MxE4m3": "fp8", "MxE2m1": "FP4", "E4m3": "fp8", "E2m1": "FP4", "Bfloat16": "bf16", "Fp16": "fp16",
}  # fmt: skip


@looks_inside(grids=True)
def trtllm_call(arguments: Arguments, context: CallContext, *, stage: str) -> Cost:
    """A product of `vllm::moe_forward` by TensorRT-LLM's kernels for mixtures of experts.

    The op records tokens, (M, K), and logits of the router, (M, E). Names and grids of the two kernels hold the rest.
    A name such as `bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256…_transOut…_swiGlu` gives types of result, weights and
    tokens, and the tile: 128 rows of weights by 16 tokens. The first kernel has ceil(2 N / 128) blocks along weights
    (N, if it has no gate), so that N is known up to the tile, as the kernel computes it. Along tokens each kernel has
    `getMaxNumCtasInBatchDim` blocks (TensorRT-LLM, trtllmGenKernels/blockScaleMoe): min(M k, E), and one for each
    further 16 of the M k rows. k is the only number that gives as many. Costs are those of `moe_up` and `moe_down`.
    """
    tokens, logits = _routed(arguments)
    own = next((found for name in context.kernels if (found := _TRTLLM.search(name))), None)
    up, grid = next(((found, grid) for name, grid in context.grids if (found := _TRTLLM.search(name))), (None, None))
    if own is None or up is None or grid is None:
        raise CannotModel("the grid of the first product is not recorded")
    experts = logits.shape[1]
    gated = bool(_GATED.search(up.string))
    topk = _choices_of_grid(tokens.shape[0], experts, int(up[5]), grid[1])
    inter = grid[0] * int(up[4]) // (2 if gated else 1)
    result, weights, dtype = (_TRTLLM_TYPES[own[at]] for at in (1, 2, 3))
    layer = Experts(
        tokens.shape[0], tokens.shape[1], inter, experts, topk, gated, dtype, weights, result,
        scaled=_BLOCKS.get(own[2], 0),
    )  # fmt: skip
    return _FORMULAS[stage](layer)


def _choices_of_grid(tokens: int, experts: int, tile: int, blocks: int) -> int:
    """How many experts a token chooses, from the blocks along tokens."""
    fitting = [
        topk
        for topk in range(1, experts + 1)
        if blocks == (first := min(tokens * topk, experts)) + (tokens * topk - first) // tile
    ]
    if len(fitting) != 1:
        raise CannotModel("the grid does not show how many experts a token chooses")
    return fitting[0]


def moved_tokens_call(arguments: Arguments, _: CallContext) -> Cost:
    """Tokens sent to their experts, or results sent back: no arithmetic, every token once."""
    tokens = arguments.tensor(0)
    if len(tokens.shape) != 2:
        raise CannotModel("the tokens are not a matrix")
    size = bytes_of(1, tokens.dtype)
    params = {"num_tokens": tokens.shape[0], "hidden_dim": tokens.shape[1], "bpe": size}
    return Cost(0, None if size is None else tokens.elements * size, "vector", "", params)


def scored_experts(gating: Tensor, topk: int, *, flops: int = 6) -> Cost:
    """Scores of all experts for each token, and the best of them.

    FLOPs = flops · M · E; bytes = gating + an fp32 bias per expert + weights and numbers of the chosen, 4 bytes each.

    Args:
        gating: logits, (tokens, experts).
        topk: experts per token.
        flops: FLOPs per logit.
    """
    if len(gating.shape) != 2:
        raise CannotModel("the logits are not a matrix")
    tokens, experts = gating.shape
    params = {"M": tokens, "n": 1, "C": experts, "E": experts, "topk": topk, "dtype_in": gating.dtype}
    chosen = Tensor((2, tokens, topk), "float")
    return vector_cost(flops * gating.elements, (gating, Tensor((experts,), "float"), chosen), gating, params)


def operands_call(arguments: Arguments, context: CallContext) -> Cost:
    """One FLOP per element of the largest operand; every operand once."""
    operands = [operand for operand in given(arguments) if operand.shape]
    if not operands:
        raise CannotModel("no argument is a tensor" if arguments.recorded else "shapes are not recorded")
    largest = max(operands, key=lambda operand: operand.elements)
    params = {"operands": [(operand.shape, operand.dtype) for operand in operands]}
    return vector_cost(largest.elements, operands, largest, params)


def chosen_call(arguments: Arguments, context: CallContext, *, gating: int, flops: int) -> Cost:
    """Reads weights of the chosen experts at 0, and logits at a position."""
    weights = arguments.tensor(0)
    if not weights.shape:
        raise CannotModel("how many experts are chosen is not recorded")
    return scored_experts(arguments.tensor(gating), weights.shape[-1], flops=flops)


def with_shared_experts(numbers: Tensor, weights: Tensor) -> Cost:
    """Numbers and weights of chosen experts: both are read, and written with the shared experts behind."""
    params = {
        "shape_in1": numbers.shape,
        "shape_in2": weights.shape,
        "dtype_in1_in2_out": (numbers.dtype, weights.dtype, weights.dtype),
    }
    return vector_cost(numbers.elements, (numbers, weights) * 2, weights, params)
