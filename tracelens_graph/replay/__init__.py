"""Minimal programs that call one operation of a trace again.

from tracelens_graph import replay

plan = replay.plan(node)        # of an op of a graph
print(plan.script())            # a program that needs torch alone
plan.run(device="cuda")         # or here
"""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use

TYPE_CHECKING = False  # that of typing, which need not be imported for it
if TYPE_CHECKING:
    from tracelens_graph.replay.arguments import Argument as Argument
    from tracelens_graph.replay.coverage import replay_coverage as replay_coverage
    from tracelens_graph.replay.listing import replay_signatures as replay_signatures
    from tracelens_graph.replay.planning import plan as plan
    from tracelens_graph.replay.planning import plan_call as plan_call
    from tracelens_graph.replay.replay_plan import CannotReplay as CannotReplay
    from tracelens_graph.replay.replay_plan import ReplayPlan as ReplayPlan

__getattr__, __dir__ = _on_first_use(
    __name__,
    {
        "Argument": "replay.arguments",
        "CannotReplay": "replay.replay_plan",
        "ReplayPlan": "replay.replay_plan",
        "plan": "replay.planning",
        "plan_call": "replay.planning",
        "replay_coverage": "replay.coverage",
        "replay_signatures": "replay.listing",
    },
)

__all__ = ["Argument", "CannotReplay", "ReplayPlan", "plan", "plan_call", "replay_coverage", "replay_signatures"]
