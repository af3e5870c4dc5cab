"""What is known of an instruction beside its operands, as a graph keeps it of argument sets: one JSON object each."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

PREFIX = "hlo::"
"""How names of instructions in the table of ops begin."""

_Figure = Annotated[int, Meta(ge=-(2**63) + 1, le=2**63 - 1)]


class Facts(Struct, frozen=True, omit_defaults=True):
    """What is known of an instruction.

    Attributes:
        kind: what it is called for: its opcode, of a fusion and a custom call also what it does (`fusion(reduce)`).
        result: its shape, as HLO writes it: `f32[64,256]{1,0}`; of a tuple all parts.
        body: opcodes in its body.
        target: of a custom call.
        groups: of a collective, as HLO writes them: `{0,1}{2,3}`.
        product: batch, m, n and k of the largest matrix product in it.
        type: type of the elements that are multiplied.
        input, filter: shapes of the operands of a convolution.
        convolution: sizes of the same in PyTorch's order (batch, channels, ...).
        attention: batch, queries, heads, keys, heads of keys, sizes of heads of both and of values.
        causal: whether it leaves out what comes later.
        flops, transcendentals, bytes: what it should cost (`hlo.work`); bytes are 0 of what moves nothing.
        xla_flops, xla_transcendentals, xla_bytes: the same by XLA's rules, where they are others; -1 for what these do
            not know.
        departs: in what our rules depart from XLA's, where that makes a difference.
        call: dimensions and the like: what `jax.lax` asks for.
        unlisted: arrays among its operands that are not listed.
    """

    kind: str
    result: str = ""
    body: str = ""
    target: str = ""
    groups: str = ""
    product: tuple[int, int, int, int] | None = None
    type: str = ""
    input: str = ""
    filter: str = ""
    convolution: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    attention: tuple[int, int, int, int, int, int, int] | None = None
    causal: bool = False
    flops: _Figure = 0
    transcendentals: _Figure = 0
    bytes: _Figure = 0
    xla_flops: _Figure | None = None
    xla_transcendentals: _Figure | None = None
    xla_bytes: _Figure | None = None
    departs: str = ""
    call: dict[str, Any] = {}
    unlisted: int = 0

    @property
    def table_name(self) -> str:
        """The name by which the table of ops knows it, such as `hlo::dot`."""
        return PREFIX + self.kind


_DECODER = msgspec.json.Decoder(Facts)


def facts_of(text: str) -> Facts | None:
    """The facts in a text; None where it is empty or damaged."""
    try:
        return _DECODER.decode(text) if text else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
