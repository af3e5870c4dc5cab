"""By which rules the cost of an instruction is counted: XLA's own, and where ours depart from them."""

from __future__ import annotations

import json
from enum import StrEnum

from tracelens_graph.hlo.program import Instruction


class Departure(StrEnum):
    """Where ours say more of a kernel than those of `HloCostAnalysis` in XLA.

    Attributes:
        trips: the body and the condition of a loop count as often as XLA notes that they run
            (`known_trip_count`); by XLA's rules once.
        libraries: calls of libraries are counted where their arguments tell the work, and move what they take and
            make, but for their workspace; XLA writes -1 for operations and bytes of any custom call.
        custom: a fusion of the kind `kCustom` costs what its body does; by XLA's rules what the first gather or
            scatter in it does, where there is one.
        passed: a fusion within a fusion that only passes its parameter on, as products that Triton computes have
            them, hides none of its traffic; by XLA's rules nothing reads that parameter.
        rows: a gather within a fusion reads the rows that it takes; by XLA's rules its whole table.
    """

    trips = "loop trips"
    libraries = "libraries"
    custom = "custom fusions"
    passed = "passed on"
    rows = "gathered rows"


Rules = frozenset[Departure]
"""Rules are XLA's but for these departures."""

OURS: Rules = frozenset(Departure)
XLA: Rules = frozenset()

_MOST_DIGITS = 18


def trips(one: Instruction) -> int | None:
    """How often XLA noted that a loop runs its body; None where it does not know."""
    if one.opcode != "while" or '"known_trip_count"' not in one.backend_config:
        return None
    try:
        told = str(json.loads(one.backend_config)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return int(told) if told.isdecimal() and len(told) <= _MOST_DIGITS else None
