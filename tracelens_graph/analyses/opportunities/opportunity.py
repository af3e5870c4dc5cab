"""What a rule finds: a place where time could be won, and by what change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracelens_graph.graph.window import Window

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture


@dataclass(frozen=True)
class Opportunity:
    """A place where time could be won.

    Attributes:
        rule: name of the rule that found it.
        what: the facts, in one sentence.
        ns: time that it takes now, devices added up.
        won_ns: what of it could be won under the assumption; None where the trace does not show it.
        assumption: under which condition that much could be won.
        advice: what to try, names of ADVICE, the best first.
        uid: the node that stands for it.
        where: what separates it from others of its rule in every run of the program: a module, or an op with its
            sizes; no uid, time or rank. Empty where a rule finds one at most.
        calls: how many calls, gaps or kernels it is made of.
        module: the module that it is in; empty for none.
        evidence: further figures, keys end in the unit: `bound`, `percent_of_roof` and the like.
    """

    rule: str
    what: str
    ns: int
    won_ns: int | None
    assumption: str
    advice: tuple[str, ...]
    uid: int
    where: str = ""
    calls: int = 1
    module: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """What it is called in every run of the program: `data-loader`, `eager-attention@MODULE`."""
        return f"{self.rule}@{self.where}" if self.where else self.rule


Find = Callable[[Window, "Architecture | None"], Iterator[Opportunity]]
"""What finds the opportunities of a rule in a window; the device is None where it is not known."""
