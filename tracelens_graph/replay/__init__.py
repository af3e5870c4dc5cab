"""Minimal programs that call one operation of a trace again.

from tracelens_graph import replay

plan = replay.plan(node)        # of an op of a graph
print(plan.script())            # a program that needs torch alone
plan.run(device="cuda")         # or here
"""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use

_NAMES = {
    "replay.planning": "plan plan_call",
    "errors": "CannotReplay",
    "replay.replay_plan": "Argument ReplayPlan",
    "replay.listing": "replay_coverage replay_signatures",
}
"""Module -> the public names that are imported from it; `__init__.pyi` is made of it."""

__getattr__, __dir__, __all__ = _on_first_use(__name__, _NAMES)
