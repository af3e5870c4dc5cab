"""The category of an operation: by its name, else by the first kernel it launches.

OpRules are data, asked in this order: the full name; patterns of names; patterns of the first kernel's name; `other`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from tracelens_graph.op_table import OP_TABLE

GRAPH = "graph"
"""Category of launches of captured graphs."""


@dataclass(frozen=True)
class Rule:
    """A category of ops, with a pattern that matches names from their start."""

    pattern: re.Pattern[str]
    category: str


@dataclass(frozen=True)
class OpRules:
    """The rules that find categories of ops.

    Attributes:
        names: full name of an operation -> category; these come first.
        by_name: patterns of names of operations, the first that matches counts.
        by_kernel: patterns of the name of the first kernel, likewise.
        by_call: patterns of names of runtime calls that launch without an operation, likewise.
        behind: rules that are asked where none of these matches.
        other: category of an operation that nothing matches, not even `behind`.
        call: category of a runtime call that nothing matches, likewise.

    Raises:
        TypeError: a name or category is not text, or a rule has no compiled pattern.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    by_name: Sequence[Rule] = ()
    by_kernel: Sequence[Rule] = ()
    by_call: Sequence[Rule] = ()
    behind: OpRules | None = None
    other: str = "other"
    call: str = "runtime"

    def __post_init__(self) -> None:
        rules = [*self.by_name, *self.by_kernel, *self.by_call]
        for one in (
            *chain.from_iterable(self.names.items()),
            self.other,
            self.call,
            *(rule.category for rule in rules),
        ):
            if not isinstance(one, str):
                raise TypeError(f"a name or category is a text, not {one!r:.60}")
        for rule in rules:
            if not isinstance(rule.pattern, re.Pattern):
                raise TypeError(f"{rule.pattern!r:.60} is no compiled pattern: re.compile() makes one")

    def before(self, others: OpRules) -> OpRules:
        """These rules, and the others where none of these matches."""
        return replace(self, behind=self.behind.before(others) if self.behind else others)


OP_RULES = OpRules(
    names={name: entry.category for name, entry in OP_TABLE.items() if entry.category},
    by_name=(Rule(re.compile("triton"), "triton"), Rule(re.compile("record_param_comms"), "record_param_comms")),
    by_kernel=tuple(
        Rule(re.compile(rf"void at::native.*{word}", re.DOTALL), word)
        for word in ("elementwise", "reduce", "multi_tensor_apply")
    ),
    by_call=(Rule(re.compile(r"(cuda|hip|cu)GraphLaunch"), GRAPH),),
)
"""The rules of TraceLens (tables and order), for its layout; ours go by kernels (`analyses.ops.launchers`)."""


def op_category(name: str, first_kernel: str, rules: OpRules = OP_RULES) -> str:
    """Category of an operation.

    Args:
        name: the operation.
        first_kernel: name of the first GPU event charged to it; "" if there is none.
        rules: what to find it by.
    """
    found = rules.names.get(name) or _first_match(rules.by_name, name) or _first_match(rules.by_kernel, first_kernel)
    if found is None and rules.behind:
        return op_category(name, first_kernel, rules.behind)
    return found or rules.other


def call_category(name: str, rules: OpRules = OP_RULES) -> str:
    """Category of a runtime call that launches without an operation: `graph` for a graph launch, else `runtime`."""
    found = _first_match(rules.by_call, name)
    if found is None and rules.behind:
        return call_category(name, rules.behind)
    return found or rules.call


def _first_match(rules: Sequence[Rule], text: str) -> str | None:
    return next((rule.category for rule in rules if rule.pattern.match(text)), None)
