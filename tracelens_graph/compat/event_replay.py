"""TraceLens's `EventReplayer`: one event of a trace, called again in this process, and its form of an operation.

replayer = EventReplayer(analyzer.tree.get_UID2event(uid), device="cuda")
replayer.replay()
json.dump([replayer.get_repro_info()], file)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tracelens_graph.compat.event import TraceEvent
from tracelens_graph.perf.scalar_types import DTYPES, FLOATING, LAYOUTS, MEMORY_FORMATS, profiler_type
from tracelens_graph.replay.calls import Call, decoded
from tracelens_graph.replay.planning import plan, plan_of
from tracelens_graph.replay.program_text import dense_strides, words
from tracelens_graph.replay.replay_plan import Argument, Named, ReplayPlan, TensorValue, Value
from tracelens_graph.replay.run import prepared

_NUMBERED = {"dtype": DTYPES, "layout": LAYOUTS, "memory_format": MEMORY_FORMATS}
"""Kinds of values that are numbers in TraceLens's form, and their names by number."""
_KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


class EventReplayer:
    """An operation of a trace that can be called again.

    Args:
        event: an event of a tree; or a mapping with its `name` and, in `args`, its `Input Dims`, `Input type`,
            `Input Strides` and `Concrete Inputs`, from which a report's row can be made.
        device: where to call it: `cuda` (of ROCm, too), `xpu` or `cpu`.
        lazy: make arguments anew for each call, and none before the first; needs no PyTorch until then.
        verbose: print the schema that was found and the arguments.

    Attributes:
        plan: the planned call.
        matched_schema: its schema.
        event_replay_IR: its arguments in TraceLens's form.
        args, kwargs: the arguments that are passed, unless `lazy`.

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
            print(f"{self.plan.op}: {self.matched_schema}")
            for one in self.plan.arguments:
                assumed = f" ({one.assumed})" if one.assumed else ""
                print(f"  {one.type} {one.name}: {words(one.value)}{assumed}")
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


def _planned(event: Mapping[str, Any]) -> ReplayPlan:
    if isinstance(event, TraceEvent):
        return plan(event.node)
    args = event.get("args") or {}
    return plan_of(Call(str(event["name"]), decoded(*(json.dumps(args.get(key) or []) for key in _KEYS))))


def tracelens_form(plan: ReplayPlan) -> dict[str, Any]:
    """A plan in TraceLens's form, without `count`.

    An argument is an object of `arg_name`, `arg_type` and `value`; a tensor's value one of `shape`, `dtype` (as the
    profiler writes it), `strides` and `init` (`normal` or `zeros`). Other contents, storages and devices have no place
    in it.
    """
    positional, keyword = ([_argument(one) for one in way] for way in (plan.positional, plan.keyword))
    return {"op_name": plan.op, "replay_ir": {"list_pos_args": positional, "list_kwargs": keyword}}


def _argument(one: Argument) -> dict[str, Any]:
    return {"arg_name": one.name, "arg_type": one.type, "value": _value(one.value)}


def _value(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_value(one) for one in value]
    if isinstance(value, TensorValue):
        return {
            "shape": list(value.shape),
            "dtype": profiler_type(value.dtype),
            "strides": list(dense_strides(value.shape) if value.strides is None else value.strides),
            "init": "normal" if value.dtype in FLOATING else "zeros",
        }
    if isinstance(value, Named):
        names = _NUMBERED.get(value.kind, ())
        return names.index(value.name) if value.name in names else "cpu" if value.name == "cpu" else None
    return str(value) if isinstance(value, complex) else value
