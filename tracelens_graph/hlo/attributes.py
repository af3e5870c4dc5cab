"""What a program says of an instruction beside its operands: `hlo.facts.Facts`."""

from __future__ import annotations

import re
from typing import Any

from tracelens_graph.hlo import work
from tracelens_graph.hlo.attention import attention_of
from tracelens_graph.hlo.facts import Facts
from tracelens_graph.hlo.products import Product, convolution_sizes, dims_of, whole_product
from tracelens_graph.hlo.program import ConvolutionDims, Instruction, Program
from tracelens_graph.hlo.shapes import LARGEST

_LONGEST = 200
"""Characters of a text; tuples can have many parts."""

_DIMENSIONS = frozenset({"broadcast", "transpose", "concatenate", "reverse"})
_FORWARD = re.compile(r"__(?:cudnn|miopen)\$convForward")

_KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("dot", frozenset({"dot", "ragged-dot"})),
    ("convolution", frozenset({"convolution"})),
    ("custom-call", frozenset({"custom-call"})),
    ("collective", frozenset({"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"})),
    ("scatter", frozenset({"scatter", "select-and-scatter"})),
    ("sort", frozenset({"sort"})),
    ("reduce", frozenset({"reduce", "reduce-window"})),
    ("gather", frozenset({"gather"})),
    ("elementwise", work.ELEMENTWISE | work.TRANSCENDENTAL),
)
"""What a fusion is called for: the first of these that it holds an instruction of; `copy` if of none."""

_TARGETS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("attention backward", r"(?:attn|attention|fmha)\w*?(?:_?bwd|backward)"),
        ("attention forward", r"attn|attention|fmha"),
        ("convolution forward", r"__(?:cudnn|miopen)\$conv(?:Forward|BiasActivationForward)"),
        ("convolution backward", r"__(?:cudnn|miopen)\$convBackward"),
        ("gemm", r"gemm|matmul|__(?:cublas|hipblas)"),
        ("norm backward", r"norm\w*?(?:_?bwd|backward)"),
        ("norm forward", r"norm"),
        ("triton", r"triton"),
        ("sort", r"top_?k|sort"),
        ("collective", r"nccl|rccl|all_?reduce|all_?gather"),
    )
)
"""What a custom call is called for, by its target; `other` if none fits."""


def facts(program: Program, one: Instruction, unlisted: int = 0) -> Facts:
    """What is known of an instruction beside its operands.

    Raises:
        OverflowError: its sizes are beyond all measure.
    """
    cost, (theirs, departures) = work.work(program, one), work.by_xla(program, one)
    if max(*cost, *theirs) >= LARGEST:
        raise OverflowError("work beyond 64 bits, which only a damaged program has")
    groups = one.short_groups.groups(_LONGEST) if one.short_groups else one.replica_groups[:_LONGEST]
    both = zip(cost, theirs, cost._fields, strict=True) if departures else ()
    return Facts(
        kind=kind_of(program, one),
        result=str(one.shape)[:_LONGEST],
        body=" ".join(code for code in program.opcodes_inside(one) if code not in work.FREE)[:_LONGEST],
        target=one.target[:_LONGEST],
        groups="".join(f"{{{','.join(map(str, group[:_LONGEST]))}}}" for group in groups)[:_LONGEST],
        flops=cost.flops,
        transcendentals=cost.transcendentals,
        bytes=cost.bytes,
        departs=", ".join(departures),
        call=_call(program, one),
        unlisted=unlisted,
        **_sizes(program, one) | {f"xla_{name}": value for ours, value, name in both if value != ours},
    )


def _sizes(program: Program, one: Instruction) -> dict[str, Any]:
    """The sizes of the product, the convolution or the attention that an instruction is or holds."""
    if products := _products(program, one):
        shape, product = max(products, key=lambda found: found[1].flops)
        return {"product": tuple(product), "type": shape}
    if convolution := next((inner for inner in _multiplying(program, one) if inner.convolution), None):
        shapes = [operand.shape for operand in program.operands(convolution)][:2]
        found: dict[str, Any] = {
            name: str(shape)[:_LONGEST] for name, shape in zip(("input", "filter"), shapes, strict=False)
        }
        found["type"] = shapes[0].name if shapes else ""
        sizes = convolution_sizes(program, convolution)
        return found if sizes is None else found | {"convolution": sizes}
    if attention := attention_of(program, one):
        types = [shape.name for operand in program.operands(one)[:1] for shape in operand.shape.arrays()]
        return {"attention": attention[:-1], "causal": attention.causal, "type": next(iter(types), "")}
    return {}


def kind_of(program: Program, one: Instruction) -> str:
    """What an instruction is called for; behind `hlo::`, the table of ops knows it by that."""
    if one.opcode == "fusion":
        inside = set(program.opcodes_inside(one))
        return f"fusion({next((kind for kind, opcodes in _KINDS if inside & opcodes), 'copy')})"
    if one.opcode == "custom-call":
        called = one.target[:_LONGEST]
        return f"custom-call({next((kind for kind, target in _TARGETS if target.search(called)), 'other')})"
    return one.opcode


def _call(program: Program, one: Instruction) -> dict[str, Any]:
    """What `jax.lax` asks for beside operands; empty where it needs nothing, and where nothing is replayed."""
    if (dims := dims_of(one)) is not None:
        return {"dims": [list(numbers) for numbers in dims]}
    if one.opcode == "reduce":
        body = program.body(one)
        root = body.result if body else None
        return {"dims": list(one.dimensions), "by": root.opcode} if root and len(one.operands) == 2 else {}
    if one.opcode in _DIMENSIONS:
        return {"dims": list(one.dimensions)}
    if one.convolution is not None and (one.opcode == "convolution" or _FORWARD.match(one.target)):
        return _convolution(one, one.convolution)
    return {}


def _convolution(one: Instruction, dims: ConvolutionDims) -> dict[str, Any]:
    return {
        "dims": [
            [dims.input_batch, dims.input_feature, *dims.input_space],
            [dims.kernel_out, dims.kernel_in, *dims.kernel_space],
            [dims.output_batch, dims.output_feature, *dims.output_space],
        ],
        "stride": [each.stride for each in one.window],
        "pad": [[each.low, each.high] for each in one.window],
        "dilate": [[each.base_dilation for each in one.window], [each.dilation for each in one.window]],
        "groups": [one.groups, one.batch_groups],
    }  # fmt: skip


def _products(program: Program, one: Instruction) -> list[tuple[str, Product]]:
    """Products that an instruction computes, each with the type of its first operand."""
    found = []
    for inner in _multiplying(program, one):
        if product := whole_product(program, one, inner):
            found.append((program.operands(inner)[0].shape.name, product))
    return found


def _multiplying(program: Program, one: Instruction) -> list[Instruction]:
    """An instruction, and those in its body that are products or convolutions."""
    body = program.body(one) if one.opcode == "fusion" else None
    if body is None:
        return [one]
    key = "multiplying", body.id
    if key not in program.known:
        inside = program.inside(one)
        program.known[key] = [inner for inner in inside if inner.convolution or dims_of(inner) is not None]
    return [one, *program.known[key]]
