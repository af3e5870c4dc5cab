"""What an operator's schema says of its tensors: which arguments it writes, which results are new, which are views."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple


class Result(IntEnum):
    """What a result of an operator is.

    `unknown` where no schema says; `fresh` is a tensor of its own (`-> Tensor`), `view` may share memory with an
    argument (`-> Tensor(a)`), `written` is an argument that was written (`-> Tensor(a!)`).
    """

    unknown = 0
    fresh = 1
    view = 2
    written = 3


class OpSchema(NamedTuple):
    """Aliases of an operator.

    Attributes:
        written: positions of the arguments that it writes.
        unread: positions of those whose content it does not read: those that it overwrites, such as `out`, and those
            that it only notes.
        results: what each result is; positions beyond the end are `unknown`.
        makes: whether its results can be new tensors at all.
    """

    written: frozenset[int]
    unread: frozenset[int]
    results: tuple[Result, ...]
    makes: bool = True

    def result(self, position: int) -> Result:
        """What a result is, by its position."""
        return self.results[position] if position < len(self.results) else Result.unknown


OVERWRITING = frozenset(
    f"aten::{name}_"
    for name in (
        "copy", "fill", "zero", "set", "resize", "uniform", "normal", "random", "bernoulli", "exponential", "cauchy",
        "geometric", "log_normal",
    )
)  # fmt: skip
"""Operators that write their first argument and do not read it."""

NOTING = frozenset(("aten::record_stream",))
"""Operators that neither read nor write their first argument, whatever their schema says: this one is for the allocator
of CUDA's memory that a stream uses it."""

NEVER_MAKING = frozenset(("record_param_comms",))
"""Nodes whose results are tensors that were there before: collectives write into what they are given."""

_ALIAS = re.compile(r"^[\w:.]+(?:\[\d*\])*\(([^()]*)\)")


@lru_cache(maxsize=4096)
def op_schema(name: str, schema: str) -> OpSchema:
    """What is known of an operator's tensors.

    Without aliases in the schema, a name that ends in one underscore (`c10d::allreduce_`) says that the first argument
    is written: PyTorch's convention.
    """
    if name in NEVER_MAKING:
        return OpSchema(frozenset(), frozenset(), (), False)
    head, arrow, tail = schema.rpartition("->")
    arguments = split_arguments(head[head.find("(") + 1 : head.rfind(")")]) if arrow else []
    tail = tail.strip()
    returned = split_arguments(tail[1:-1] if tail.startswith("(") else tail) if arrow else []
    keyword_from = arguments.index("*") if "*" in arguments else len(arguments)
    arguments = [one for one in arguments if one != "*"]
    written = frozenset(i for i, one in enumerate(arguments) if "!" in _alias(one))
    unread = frozenset(i for i in written if i >= keyword_from)
    is_in_place = name.endswith("_") and not name.endswith("__")
    if not written and is_in_place and not any(map(_alias, arguments)):
        written = frozenset((0,))
    if name in NOTING:
        written, unread = written - {0}, unread | {0}
    elif name in OVERWRITING:
        unread |= written & {0}
    return OpSchema(written, unread, tuple(_result(one) for one in returned))


def _result(text: str) -> Result:
    alias = _alias(text)
    if alias:
        return Result.written if "!" in alias else Result.view
    return Result.fresh if text.startswith("Tensor") else Result.unknown


def _alias(text: str) -> str:
    """The alias of an argument or result, `a!` of `Tensor(a!)[] self`; empty for none."""
    found = _ALIAS.match(text)
    return found[1] if found else ""


def split_arguments(text: str) -> list[str]:
    """Parts of a schema between commas outside of brackets and quotes."""
    parts, depth, begin, quote, escaped = [], 0, 0, "", False
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote and not escaped else quote
            escaped = sign == "\\" and not escaped
        elif sign in "\"'":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and depth <= 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts
