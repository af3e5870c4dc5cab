"""Why the GPU work of a place differs, from what the traces show; where they do not show it, the reason says so.

`RULES` are asked in their order, and the first that has evidence answers.
"""

from __future__ import annotations

from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.reasons import Why
from tracelens_graph.analyses.alignment.rules import RULES
from tracelens_graph.analyses.alignment.whole_evidence import Whole


class Reasons(Whole):
    """Reasons for the places of a comparison."""

    def of(self, place: Place) -> Why:
        """Why the sides differ at a place."""
        evidence = self.evidence(place)
        why = next(why for rule in RULES if (why := rule(evidence, self)) is not None)
        if place.among is None or place.among.ratio is not None:
            return why
        return why._replace(text=f"{place.among}: {why.text}")
