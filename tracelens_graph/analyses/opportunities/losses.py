"""The verdict's losses as opportunities: idle time, exposed copies and exposed communication."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracelens_graph.analyses.diagnosis.causes import losses_of
from tracelens_graph.analyses.diagnosis.finding import brief
from tracelens_graph.analyses.opportunities.opportunity import Find, Opportunity
from tracelens_graph.graph.window import Window

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture


def loss(topic: str, what: str, assumption: str) -> Find:
    """What finds the loss of a topic of the verdict, which takes its whole time.

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
                name = str(evidence.get("because") or evidence.get("name") or "")
                yield Opportunity(
                    one.id, f"{what}, such as in {brief(name)}" if name else what, ns, ns, assumption, one.advice,
                    int(evidence["uid"]), calls=int(calls), line=str(evidence.get("python", "")),
                )  # fmt: skip

    return find
