"""The programs that are written of a trace: one per signature, one that runs a list of them, one of collectives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.node import Node
from tracelens_graph.replay.folder import Program, program_name
from tracelens_graph.replay.literals import identifier
from tracelens_graph.replay.planned import Estimates, Plans, complete, traced
from tracelens_graph.replay.replay_plan import CannotReplay
from tracelens_graph.replay.triton import is_triton, triton_plan

if TYPE_CHECKING:
    from tracelens_graph.graph.window import Window
    from tracelens_graph.replay.sequence import SequencePlan

RUNNER = "run.py"
COLLECTIVES = "collectives.py"


def single_programs(plans: Plans, estimates: Estimates) -> dict[int, Program]:
    """A program for each signature that has a plan, and for a Triton kernel one that lacks its source; by place."""
    found = {}
    for place in range(len(plans.signatures)):
        plan = complete(plans, place, estimates).plan
        if plan is not None:
            found[place] = Program(program_name(plan, place + 1), "op", plan.script(), (plan,))
        elif stub := _stub(plans, place, estimates):
            found[place] = stub
    return found


def _stub(plans: Plans, place: int, estimates: Estimates) -> Program | None:
    signatures = plans.signatures
    row = int(signatures.rows[place])
    if not is_triton(signatures.core, row):
        return None
    try:
        made = triton_plan(Node(signatures.core, row))
    except CannotReplay:
        return None
    plan = made.plan.with_traced(traced(signatures, place, estimates.gpu), made.plan.work)
    return Program(program_name(plan, place + 1), "triton", made.script(), (plan,))


def batch_program(plans: Plans, estimates: Estimates) -> tuple[Program, Mapping[str, str]]:
    """One program that runs all signatures that have a plan, and the file that lists them: its name and text.

    Raises:
        AnalysisError: none has a plan.
    """
    from tracelens_graph.replay.batch import FILE, operations, runner

    made = (complete(plans, place, estimates).plan for place in range(len(plans.signatures)))
    listed = tuple(plan for plan in made if plan is not None)
    if not listed:
        raise nothing(plans)
    return Program(RUNNER, "batch", runner(), listed), {FILE: json.dumps(operations(listed), indent=1) + "\n"}


def collectives_program(w: Window) -> Program:
    """A program of the collectives of a window, for torchrun.

    Raises:
        AnalysisError: there are none.
    """
    from tracelens_graph.replay.collectives import collective_plan

    return Program(COLLECTIVES, "collectives", collective_plan(w).script())


def sequence_program(found: SequencePlan) -> Program:
    """A program of the operations below a node, in their order."""
    return Program(f"{identifier(found.title)}.py", "sequence", found.script(), found.plans)


def nothing(plans: Plans) -> AnalysisError:
    """The error that says why no signature has a plan."""
    reasons = dict.fromkeys(plans[place].why for place in range(len(plans.signatures)))
    return AnalysisError(f"nothing can be replayed: {', '.join(reasons)}")
