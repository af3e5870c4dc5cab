"""The programs that are written of a trace: one per signature, one that runs a list of them, one of collectives."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.node import Node
from tracelens_graph.replay.folder import Program, program_name
from tracelens_graph.replay.heading import identifier, written_by
from tracelens_graph.replay.instruction import InstructionPlan
from tracelens_graph.replay.planned import Estimates, Plans, complete, traced
from tracelens_graph.replay.replay_plan import CannotReplay, ReplayPlan
from tracelens_graph.replay.triton import is_triton, triton_plan
from tracelens_graph.utils.texts import cut_end

if TYPE_CHECKING:
    from tracelens_graph.replay.collectives import CollectivePlan
    from tracelens_graph.replay.sequence import SequencePlan

RUNNER = "run.py"
COLLECTIVES = "collectives.py"
_MOST_REASONS = 5
_LONGEST = 200
"""Characters of a reason."""


def single_programs(plans: Plans, estimates: Estimates, most: int = 0) -> dict[int, Program]:
    """A program for each signature that has a plan, and for a Triton kernel one that lacks its source; by place.

    Args:
        plans: plans of the signatures.
        estimates: what the models say of their calls.
        most: how many programs are written; 0 for all.
    """
    found: dict[int, Program] = {}
    for place in range(len(plans.signatures)):
        if most and len(found) == most:
            break
        plan = complete(plans, place, estimates).plan
        number = len(found) + 1
        if isinstance(plan, InstructionPlan):
            found[place] = Program.of(plan, plan.file_name(number))
        elif plan is not None:
            found[place] = Program.of(plan, program_name(plan, number))
        elif stub := _stub(plans, place, number, estimates):
            found[place] = stub
    return found


def _stub(plans: Plans, place: int, number: int, estimates: Estimates) -> Program | None:
    signatures = plans.signatures
    row = int(signatures.rows[place])
    if not is_triton(signatures.core, row):
        return None
    try:
        made = triton_plan(Node(signatures.core, row))
    except CannotReplay:
        return None
    plan = made.plan.with_traced(traced(signatures, place, estimates.gpu), made.plan.work)
    return Program.of(replace(made, plan=plan), program_name(plan, number))


def batch_program(plans: Plans, estimates: Estimates, most: int = 0) -> dict[int, Program]:
    """One program that runs the signatures that have a plan, by their places.

    Args:
        plans: plans of the signatures.
        estimates: what the models say of their calls.
        most: how many signatures it runs; 0 for all.

    Raises:
        AnalysisError: none has a plan.
    """
    made = ((place, complete(plans, place, estimates).plan) for place in range(len(plans.signatures)))
    listed = dict(islice(((place, plan) for place, plan in made if isinstance(plan, ReplayPlan)), most or None))
    if not listed:
        raise nothing(plans)
    about = f"{len(listed):,} operations of a trace, called again one after another.\n\n{written_by()}\n"
    return dict.fromkeys(listed, Program(RUNNER, "batch", about, [plan.json() for plan in listed.values()]))


def collectives_program(found: CollectivePlan) -> Program:
    """A program of the collectives of a trace, for torchrun."""
    return Program.of(found, COLLECTIVES)


def sequence_program(found: SequencePlan) -> Program:
    """A program of the operations below a node, in their order."""
    return Program.of(found, f"{identifier(found.title)}.py")


def nothing(plans: Plans) -> AnalysisError:
    """The error that says why no signature has a plan."""
    reasons = list(dict.fromkeys(plans[place].why for place in range(len(plans.signatures))))
    if not reasons:
        return AnalysisError(
            "nothing can be replayed: no operation launched the GPU work; record host and GPU together"
        )
    more = f", and {len(reasons) - _MOST_REASONS:,} other reasons" if len(reasons) > _MOST_REASONS else ""
    told = ", ".join(cut_end(one, _LONGEST) for one in reasons[:_MOST_REASONS])
    return AnalysisError(f"nothing can be replayed: {told}{more}")
