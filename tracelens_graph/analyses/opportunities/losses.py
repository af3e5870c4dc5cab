"""The verdict's losses as opportunities: idle time, exposed copies and exposed communication."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracelens_graph.analyses.diagnosis.account import Account, account_of
from tracelens_graph.analyses.diagnosis.causes import losses_of
from tracelens_graph.analyses.diagnosis.finding import brief
from tracelens_graph.analyses.opportunities.opportunity import Find, Opportunity
from tracelens_graph.graph.window import Window

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture


_BESIDE_COMPUTATION = ("exposed_communication", "host_to_device_copy", "other_copies")
"""Topics of what could run beside computation, so no longer than that takes."""


def loss(topic: str, what: str, assumption: str) -> Find:
    """What finds the loss of a topic of the verdict; what could be hidden is no longer than what could hide it.

    Args:
        topic: of the finding.
        what: what takes the time, in words.
        assumption: under which all of its time could be won.
    """

    def find(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
        for one in losses_of(w):
            if one.topic == topic:
                evidence, ns = one.evidence, round(float(one.evidence["ms"]) * 1e6)
                calls = evidence.get("gaps") or evidence.get("copies") or evidence.get("gpu_events") or 1
                won = min(ns, _free_computation(account_of(w), topic)) if topic in _BESIDE_COMPUTATION else ns
                name = str(evidence.get("because") or evidence.get("name") or "")
                yield Opportunity(
                    one.id, f"{what}, such as in {brief(name)}" if name else what, ns, won, assumption, one.advice,
                    int(evidence["uid"]), calls=int(calls),
                )  # fmt: skip

    return find


def _free_computation(account: Account, topic: str) -> int:
    """Time of computation with no communication, or no copy, beside it, in which exposed one could be hidden."""
    times = account.times
    what = "comm" if topic == "exposed_communication" else "memcpy"
    return max(times["computation_time"] - times[f"total_{what}_time"] + times[f"exposed_{what}_time"], 0)
