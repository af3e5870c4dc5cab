"""TraceLens's `EventReplayer`: one event of a trace, called again in this process.

replayer = EventReplayer(analyzer.tree.get_UID2event(uid), device="cuda")
replayer.replay()
json.dump([replayer.get_repro_info()], file)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tracelens_graph.compat.event import TraceEvent
from tracelens_graph.compat.replay_form import recorded_of_event, tracelens_form
from tracelens_graph.replay.calls import Call
from tracelens_graph.replay.program_text import words
from tracelens_graph.replay.planning import plan, plan_of
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.run import prepared


class EventReplayer:
    """An operation of a trace that can be called again.

    Args:
        event: an event of a tree; or a mapping with its `name` and, in `args`, its `Input Dims`, `Input type`,
            `Input Strides` and `Concrete Inputs`, of which a report's row can be made.
        device: where to call it: `cuda` (of ROCm, too), `xpu` or `cpu`.
        lazy: make arguments anew for each call, and none before the first; needs no PyTorch until then.
        verbose: print the schema that was found and the arguments.

    Attributes:
        plan: the planned call.
        matched_schema: its schema.
        event_replay_IR: its arguments in TraceLens's form.
        args, kwargs: the arguments, unless `lazy`.

    Raises:
        CannotReplay: the event cannot be replayed; says why and what would help. Of an event that is not lazy also
            where the installed PyTorch lacks the operation.
        NoTorchError: PyTorch is not installed, and the event is not lazy.
    """

    def __init__(
        self, event: Mapping[str, Any], device: str = "cuda", lazy: bool = False, verbose: bool = False
    ) -> None:
        self.event = event
        self.device = device
        self.lazy = lazy
        self.verbose = verbose
        self.plan: ReplayPlan = _planned(event)
        self.matched_schema = self.plan.schema
        self.event_replay_IR: dict[str, Any] = tracelens_form(self.plan)["replay_ir"]
        if verbose:
            self._tell()
        if not lazy:
            self.setup()

    def setup(self) -> None:
        """Make the arguments.

        Raises:
            CannotReplay, NoTorchError: as the class.
        """
        self._call = prepared(self.plan, self.device)
        self.args, self.kwargs = list(self._call.args), dict(self._call.keywords)

    def replay(self) -> Any:
        """Call the operation.

        Returns:
            What the operation returns.

        Raises:
            CannotReplay, NoTorchError: as the class.
            RuntimeError: PyTorch refuses the call.
        """
        return prepared(self.plan, self.device)() if self.lazy else self._call.func(*self.args, **self.kwargs)

    def get_repro_info(self) -> dict[str, Any]:
        """What reproduces the call elsewhere, for JSON.

        Returns:
            `op_name` and `replay_ir` in TraceLens's form, and with them our `plan`, which `batched_replay.py` beside
            this package's `EventReplay` reads. A `count` is whoever saves it to add.
        """
        plan = replace(self.plan, traced=replace(self.plan.traced, calls=1))
        return tracelens_form(self.plan) | {"plan": plan.json()}

    def _tell(self) -> None:
        print(f"{self.plan.op}: {self.matched_schema}")
        for one in self.plan.arguments:
            assumed = f" ({one.assumed})" if one.assumed else ""
            print(f"  {one.type} {one.name}: {words(one.value)}{assumed}")


def _planned(event: Mapping[str, Any]) -> ReplayPlan:
    if isinstance(event, TraceEvent):
        return plan(event.node)
    return plan_of(Call(str(event["name"]), recorded_of_event(event.get("args") or {})))
