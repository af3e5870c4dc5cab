"""What XLA says that an instruction costs, and in what our rules depart there."""

from __future__ import annotations

from tracelens_graph.hlo.program import Instruction, Program
from tracelens_graph.hlo.rules import OURS, XLA, Departure
from tracelens_graph.hlo.work import Work, work


def by_xla(program: Program, one: Instruction) -> tuple[Work, list[Departure]]:
    """What an instruction costs by XLA's rules, and the departures of ours that make a difference.

    One departure after the other is given up, in their order, until the rules are XLA's: named are those that change
    a figure then.

    Args:
        program: its program.
        one: the instruction.
    """
    theirs, before = work(program, one, XLA), work(program, one)
    if theirs == before:
        return theirs, []
    rules, named = OURS, []
    for departure in Departure:
        rules -= {departure}
        after = work(program, one, rules)
        if after != before:
            named.append(departure)
        before = after
    return theirs, named
