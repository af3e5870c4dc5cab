"""Many operations in one file, and one program that runs them; TraceLens's form of such a file, written and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tracelens_graph._version import __version__
from tracelens_graph.replay.assemble import parts, program
from tracelens_graph.replay.plan_json import NotAPlanError, plan_from_json, plan_json
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.script import written_arguments

FILE, RUNNER = "operations.json", "run.py"
"""Names of the list and of the program in a folder."""
MODULES = ("values", "timing", "measure", "batch")
"""What the program is put together from."""


def operations(plans: Iterable[ReplayPlan]) -> list[dict[str, Any]]:
    """Plans as JSON's values: one object per plan.

    | key | what |
    |---|---|
    | operation | its name |
    | count | calls in the trace with these arguments |
    | restored | names of arguments that it writes and that get back between calls what they held |
    | plan | the plan, as `plan_json` writes it |
    """
    return [
        {
            "operation": plan.op,
            "count": plan.traced.calls,
            "restored": sorted(written_arguments(plan)),
            "plan": plan_json(plan),
        }
        for plan in plans
    ]


def plans_of(entries: Any) -> list[ReplayPlan]:
    """The plans of such a list; an entry without a plan may be in TraceLens's form.

    Raises:
        NotAPlanError: it is none; the message names the entry.
    """
    from tracelens_graph.replay.tracelens_form import plan_from_tracelens

    if not isinstance(entries, list):
        raise NotAPlanError("the list of operations is no list")
    found = []
    for at, entry in enumerate(entries):
        try:
            if not isinstance(entry, Mapping) or not {"plan", "op_name"} & entry.keys():
                raise NotAPlanError("is no operation")
            found.append(plan_from_json(entry["plan"]) if "plan" in entry else plan_from_tracelens(entry))
        except NotAPlanError as error:
            raise NotAPlanError(f"operation {at + 1}: {error}") from None
    return found


def runner() -> str:
    """The source of the program that runs such a list; it needs PyTorch and nothing else, and is always the same."""
    known = parts(*MODULES)
    return program(known, _ABOUT, {}, sorted(known.rules))


_ABOUT = f"""Operations of a trace, called again one after another; {FILE} beside this file lists them.

Written by tracelens_graph {__version__}; needs PyTorch and nothing else.
"""
