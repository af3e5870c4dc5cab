"""What is told of an instruction beside its operands: texts that stand among its arguments.

The first of them is the name by which the table of ops knows it (`op_table.hlo`): `hlo::dot`, `hlo::fusion(reduce)`,
`hlo::custom-call(gemm)`. Then come its result, the opcodes in its body, and what it should cost (`graph.hlo.work`):

    hlo::fusion(dot)  f32[64,256]{1,0}  body=convert dot  product=1x64x256x128  type=bf16  flops=4194304  bytes=114688

Figures of XLA's own analysis follow where they are others, with the names of what our rules depart in:

    xla_bytes=256112  departs=gathered rows
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracelens_graph.hlo import work
from tracelens_graph.hlo.attention import attention_of
from tracelens_graph.hlo.call import call_text
from tracelens_graph.hlo.departures import by_xla
from tracelens_graph.hlo.products import Product, dims_of
from tracelens_graph.hlo.program import Instruction, Program
from tracelens_graph.hlo.shapes import LARGEST
from tracelens_graph.hlo.sizes import convolution_sizes, whole_product
from tracelens_graph.hlo.told import PREFIX

_LONGEST = 200
"""Characters of an attribute; tuples can have many parts."""

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


def attributes(program: Program, one: Instruction) -> list[str]:
    """The attributes of an instruction, the name of its kind first.

    Raises:
        OverflowError: its sizes are beyond all measure.
    """
    told = [table_name(program, one), str(one.shape)]
    if body := [opcode for opcode in program.opcodes_inside(one) if opcode not in work.FREE]:
        told.append(f"body={' '.join(body)}")
    if one.target:
        told.append(f"target={one.target}")
    if groups := one.short_groups.groups(_LONGEST) if one.short_groups else one.replica_groups[:_LONGEST]:
        told.append(f"groups={_listed(groups)}")
    products = _products(program, one)
    if products:
        shape, product = max(products, key=lambda found: found[1].flops)
        told += [f"product={'x'.join(map(str, product))}", f"type={shape}"]
    elif convolution := next((inner for inner in _multiplying(program, one) if inner.convolution), None):
        shapes = [operand.shape for operand in program.operands(convolution)][:2]
        told += [f"{name}={shape}" for name, shape in zip(("input", "filter"), shapes, strict=False)]
        told += [f"type={shape.name}" for shape in shapes[:1]]
        if sizes := convolution_sizes(program, convolution):
            told.append(f"convolution={' '.join('x'.join(map(str, one)) for one in sizes)}")
    elif attention := attention_of(program, one):
        told.append(f"attention={'x'.join(map(str, attention[:-1]))}")
        told += ["causal=1"] if attention.causal else []
        told += [f"type={shape.name}" for operand in program.operands(one)[:1] for shape in operand.shape.arrays()][:1]
    cost = work.work(program, one)
    theirs, departures = by_xla(program, one)
    if max(*cost, *theirs) >= LARGEST:
        raise OverflowError("work beyond 64 bits, which only a damaged program tells of")
    told += [f"{name}={value}" for name, value in zip(cost._fields, cost, strict=True) if value or name == "flops"]
    if departures:
        both = zip(cost, theirs, cost._fields, strict=True)
        told += [f"xla_{name}={value}" for ours, value, name in both if value != ours]
        told.append(f"departs={', '.join(departures)}")
    told.append(call_text(program, one))
    return [text[:_LONGEST] for text in told if text]


def table_name(program: Program, one: Instruction) -> str:
    """The name by which the table of ops knows an instruction."""
    if one.opcode == "fusion":
        inside = set(program.opcodes_inside(one))
        return f"{PREFIX}fusion({next((kind for kind, opcodes in _KINDS if inside & opcodes), 'copy')})"
    if one.opcode == "custom-call":
        called = one.target[:_LONGEST]
        return f"{PREFIX}custom-call({next((kind for kind, target in _TARGETS if target.search(called)), 'other')})"
    return f"{PREFIX}{one.opcode}"


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


def _listed(groups: Sequence[Sequence[int]]) -> str:
    return "".join(f"{{{','.join(map(str, group[:_LONGEST]))}}}" for group in groups)
