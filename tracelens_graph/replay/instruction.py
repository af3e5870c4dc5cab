"""Plans of instructions of XLA: one instruction with operands that JAX can make again.

What is known of it stands beside its arguments (`hlo.facts`): the program it comes from is not needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar

from msgspec import to_builtins

from tracelens_graph.errors import CannotReplay
from tracelens_graph.graph.arguments import instructions_of
from tracelens_graph.graph.core import Core
from tracelens_graph.replay.calls import recorded_at, sizes
from tracelens_graph.replay.program_text import (
    HasProgram,
    ProgramKind,
    dense_strides,
    entry,
    identifier,
    words,
    written_by,
)
from tracelens_graph.replay.replay_plan import TensorValue, Traced, Work

_TYPES = {
    "pred": "bool", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "c64": "complex64", "c128": "complex128", "f8e5m2": "float8_e5m2", "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e4m3fnuz": "float8_e4m3fnuz",
}  # fmt: skip
"""Names of types in XLA and in JAX."""

_CALLS = {
    "abs": "abs", "add": "add", "and": "bitwise_and", "atan2": "atan2", "cbrt": "cbrt", "ceil": "ceil",
    "clamp": "clamp", "cosine": "cos", "divide": "div", "erf": "erf", "exponential": "exp",
    "exponential-minus-one": "expm1", "floor": "floor", "is-finite": "is_finite", "log": "log", "log-plus-one": "log1p",
    "logistic": "logistic", "maximum": "max", "minimum": "min", "multiply": "mul", "negate": "neg",
    "not": "bitwise_not", "or": "bitwise_or", "power": "pow", "remainder": "rem", "rsqrt": "rsqrt", "select": "select",
    "shift-left": "shift_left", "shift-right-arithmetic": "shift_right_arithmetic",
    "shift-right-logical": "shift_right_logical", "sign": "sign", "sine": "sin", "sqrt": "sqrt", "subtract": "sub",
    "tan": "tan", "tanh": "tanh", "xor": "bitwise_xor",
}  # fmt: skip
"""Instructions that work element by element -> what computes them in jax.lax."""

_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "and": "all", "or": "any"}
"""What a reduction does -> what does that in jax.numpy."""

_MOST_ELEMENTS = 1 << 36
_ARRAY = re.compile(r"\(?(\w+)\[([\d,]*)\]")
_ALONG = ("broadcast", "concatenate", "reverse", "transpose")
"""Instructions that need the dimensions that they work along."""
_PLAIN = ("convert", "copy")
_OF_LIBRARIES = {"custom-call(gemm)": "dot", "custom-call(convolution forward)": "convolution"}
"""Calls of libraries -> the instruction that computes the same."""

_CALL_IT = "call the library's own function with the sizes of the row"
_REASONS = (
    (r"fusion\(dot\)|custom-call\(gemm\)", "its product is not recorded",
     "call jax.numpy.matmul with the sizes of the row"),
    (r"fusion\(", "a fusion: what is in it is not recorded in full", "nothing: only its operands and result are known"),
    (r"custom-call\(triton\)", "a Triton kernel", "nothing: a profile has no source of kernels"),
    (r"custom-call\(collective\)|all-|reduce-scatter|collective-|ragged-all|send|recv", "a collective",
     "nothing: programs of JAX run on one device"),
    (r"custom-call\(attention", "attention of a library", _CALL_IT),
    (r"custom-call\(", "a call of a library", _CALL_IT),
    (r"while|conditional|call|async-", "control flow", "the instructions in it have rows of their own"),
)  # fmt: skip
"""Names in the table of ops, why these instructions cannot be replayed, and what helps."""


@dataclass(frozen=True)
class InstructionPlan(HasProgram):
    """One instruction with operands, ready to be computed.

    Attributes:
        op: its name, such as `dot.3`.
        opcode: what is computed.
        operands, result: arrays; their shapes and types count.
        call: dimensions and the like.
        assumed: what the profile does not show and was chosen, in words.
        traced: what the profile says of the calls that it stands for.
        work: what models say of one call.
    """

    kind: ClassVar[ProgramKind] = "instruction"

    op: str
    opcode: str
    operands: tuple[TensorValue, ...]
    result: TensorValue
    call: Mapping[str, Any]
    assumed: tuple[str, ...] = ()
    traced: Traced = field(default_factory=Traced)
    work: Work = field(default_factory=Work)

    def with_traced(self, traced: Traced, work: Work) -> InstructionPlan:
        """The same instruction with what a profile and models say of it."""
        if self.opcode == "dot" and work.bytes:  # models know those of a fusion, of which this is the product alone
            work = Work(work.flops, float(sum(one.bytes for one in (*self.operands, self.result))), work.roof_us)
        return replace(self, traced=traced, work=work)

    def json(self) -> list[dict[str, Any]]:
        """What its program computes, in JAX's words: a list of one."""
        call = dict(self.call) | ({"by": _REDUCTIONS[self.call["by"]]} if self.opcode == "reduce" else {})
        signature = {"dims": [one.shape for one in self.operands], "types": [one.dtype for one in self.operands],
                     "values": [self.opcode, json.dumps(dict(self.call))]}  # fmt: skip
        return [{
            "op": self.op, "opcode": self.opcode, "function": _CALLS.get(self.opcode, ""),
            "operands": [_array_facts(one) for one in self.operands], "result": _array_facts(self.result), "how": call,
            "signature": signature, "traced": to_builtins(self.traced), "work": to_builtins(self.work),
            "assumed": self.assumed,
        }]  # fmt: skip

    @property
    def about(self) -> str:
        """The heading of its program."""
        lines = [f"{identifier(self.op)}: one instruction of XLA, computed again by JAX.", ""]
        lines += entry("computes", f"{self.opcode} of {', '.join(map(words, self.operands)) or 'nothing'}")
        calls = f"{self.traced.calls:,} call{'s' * (self.traced.calls != 1)}"
        lines += entry("traced", f"{calls}, median {self.traced.median_us:,.2f} us of GPU time")
        for text in self.assumed:
            lines += entry("assumed", text)
        return "\n".join([*lines, "", written_by(needs="JAX")]) + "\n"


def plan_instruction(core: Core, row: int) -> InstructionPlan:
    """The plan of the instruction at a row.

    Raises:
        CannotReplay: the profile does not record enough of it, or it is none that is replayed.
    """
    recorded = recorded_at(core, row)
    facts = instructions_of(core).get(int(core.columns.argset[row]))
    if facts is None:
        raise CannotReplay("its instruction is not recorded", "a profile that holds the programs (/host:metadata)")
    kind, given = facts.kind, list(zip(recorded.dims, recorded.types, strict=True))
    found = _ARRAY.match(facts.result)  # of several the first, for libraries give their workspace, too
    if found is None:
        raise CannotReplay("its result is not recorded")
    result = (tuple(int(size) for size in found[2].split(",") if size), found[1])
    opcode = _OF_LIBRARIES.get(kind, kind)
    call: Mapping[str, Any] = facts.call if all(map(_is_plain, facts.call.values())) else {}
    assumed = []
    if opcode == "reduce" and call and call.get("by") in _REDUCTIONS:
        given = given[:1]
    elif opcode in ("dot", "convolution") and call:
        given = given[:2]
    elif kind == "fusion(dot)" and facts.product is not None:
        batch, m, n, k = facts.product
        opcode, call = "dot", {"dims": [[2], [1], [0], [0]]}
        given, result = [((batch, m, k), facts.type), ((batch, k, n), facts.type)], ((batch, m, n), result[1])
        assumed.append("fusion: the product alone, its operands row by row")
    elif not (opcode in _CALLS or opcode in _PLAIN or (opcode in _ALONG and call)):
        unknown = f"no replay of {identifier(kind)}", ""
        raise CannotReplay(*next((why for pattern, *why in _REASONS if re.match(pattern, kind)), unknown))
    strides = zip(recorded.strides, given, strict=False)
    if not assumed and any(one and one != dense_strides(dims) for one, (dims, _) in strides):
        assumed.append("operands: lie row by row")
    if kind in _OF_LIBRARIES:
        assumed.append("call: what the library is given beside shapes is left out")
    name, operands = core.names[core.columns.name[row]], tuple(_array(*one) for one in given)
    return InstructionPlan(name, opcode, operands, _array(*result), call, tuple(assumed))


def _array(dims: object, type: str) -> TensorValue:
    """An operand or a result.

    Raises:
        CannotReplay: it cannot be read, is of no type of JAX, or fits into no memory.
    """
    shape = sizes(dims)
    if shape is None:
        raise CannotReplay("its operands cannot be read")
    if type not in _TYPES:
        raise CannotReplay(f"no array of JAX is of type {identifier(type)}")
    if prod(shape) > _MOST_ELEMENTS:
        raise CannotReplay("larger than any memory")
    return TensorValue(shape, _TYPES[type])


def _array_facts(array: TensorValue) -> dict[str, Any]:
    return {"dims": array.shape, "dtype": array.dtype}


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether it is a word, or a list of whole numbers or of such lists, as none other is written."""
    if isinstance(value, list) and depth < 3:
        return all(_is_plain(one, depth + 1) for one in value)
    return type(value) is int if depth else isinstance(value, str)
