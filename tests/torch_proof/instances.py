"""Calls of a recording: their plans, the replay of these in this process, and how each compares."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tracelens_graph.errors import CannotReplay
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.planning import plan_call
from tracelens_graph.replay.replay_plan import ReplayPlan, Traced, Work
from tracelens_graph.replay.run import prepared
from tracelens_graph.replay.short_program import short_program
from tracelens_graph.replay.verify.verify import Outcome, compared, observed
from tracelens_graph.schema import Kind

AT_ONCE = 400
"""Calls that are recorded in one session of the profiler."""

RUNS = ("equal", "equal but assumed", "other children", "other arguments")
"""Outcomes of calls that ran."""


@dataclass
class Tally:
    """How many calls came out how.

    Attributes:
        counts: (op, outcome, why) -> number of calls.
        examples: the same -> one of them.
        signatures: number of different calls.
        seconds: what planning took.
    """

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str, str], str] = field(default_factory=dict)
    signatures: int = 0
    seconds: float = 0.0

    def add(self, op: str, outcome: str, why: str, number: int, example: str) -> None:
        self.counts[op, outcome, why] += number
        self.examples.setdefault((op, outcome, why), example)

    def update(self, other: Tally) -> None:
        self.counts.update(other.counts)
        self.examples = {**other.examples, **self.examples}
        self.signatures += other.signatures
        self.seconds += other.seconds

    def as_json(self) -> dict[str, Any]:
        rows = [[*key, number, self.examples.get(key, "")] for key, number in self.counts.items()]
        return {"rows": rows, "signatures": self.signatures, "seconds": self.seconds}

    @staticmethod
    def of_json(told: dict[str, Any]) -> Tally:
        found = Tally(signatures=told["signatures"], seconds=told["seconds"])
        for op, outcome, why, number, example in told["rows"]:
            found.add(op, outcome, why, number, example)
        return found


def check(trace: Path, execution_trace: Path | None, folder: Path, form: str = "plan") -> Tally:
    """Plan each call of an aten op, run each different plan once, and compare.

    Args:
        trace: what the profiler recorded.
        execution_trace: that of the same run, if it is to be used.
        folder: for the recordings of the replays.
        form: what is run: the `plan` in this process, or the `short` program of it, where there is one.
    """
    core = load_core(str(trace), et=str(execution_trace) if execution_trace else None, processes=1)
    found, plans = Tally(), {}
    begun = time.perf_counter()
    for row in aten_rows(core):
        op = core.names[core.columns.name[row]]
        try:
            plan = plan_call(core, row)
        except CannotReplay as reason:
            found.add(op, "no plan", reason.reason, 1, shown(core, row))
            continue
        except Exception as error:
            found.add(op, "planning crashed", f"{type(error).__name__}: {error}", 1, shown(core, row))
            continue
        children = observed(core, row).children
        key = repr((plan.op, plan.overload, plan.positional, plan.keyword, plan.recorded, children))
        known = plans.get(key)
        if known is None:
            plans[key] = (plan.with_traced(Traced(uid=0, children=children), Work()), 1, row)
        else:
            plans[key] = (known[0], known[1] + 1, row)
    found.seconds, found.signatures = time.perf_counter() - begun, len(plans)
    of_plans = list(plans.values())
    for (plan, number, row), outcome in zip(
        of_plans, outcomes([one[0] for one in of_plans], folder, form), strict=True
    ):
        found.add(
            plan.op, outcome.outcome, outcome.why if outcome.outcome not in RUNS[:2] else "", number, shown(core, row)
        )
    return found


def aten_rows(core: Core) -> list[int]:
    """Calls of aten ops."""
    is_aten = np.array([name.startswith("aten::") for name in core.names], bool)
    return np.flatnonzero((core.columns.kind == Kind.Op) & is_aten[core.columns.name]).tolist()


def shown(core: Core, row: int) -> str:
    """A call as text."""
    seen = observed(core, row).recorded
    told = " ".join(str(list(part)) for part in (seen.types, seen.dims, seen.strides, seen.values))
    return f"{core.names[core.columns.name[row]]} {told}"


def outcomes(plans: Sequence[ReplayPlan], folder: Path, form: str) -> Iterator[Outcome]:
    """How each plan comes out."""
    for begin in range(0, len(plans), AT_ONCE):
        yield from _outcomes_at_once(plans[begin : begin + AT_ONCE], folder / f"replayed-{begin}.json", form)


def made(plan: ReplayPlan, form: str) -> Callable[[], Any]:
    """The call of a plan, with its arguments made."""
    source = short_program(plan) if form == "short" else ""
    if not source:
        return prepared(plan, "cpu")
    program: dict[str, Any] = {"__name__": "program"}
    with mock.patch.object(sys, "argv", ["program", "--device", "cpu"]):
        exec(compile(source, plan.op, "exec"), program)
    call: Callable[[], Any] = program["call"]
    return call


def _outcomes_at_once(plans: Sequence[ReplayPlan], file: Path, form: str) -> Iterator[Outcome]:
    calls: list[Callable[[], Any] | None] = []
    failures: dict[int, str] = {}
    for at, plan in enumerate(plans):
        try:
            calls.append(made(plan, form))
        except Exception as error:
            calls.append(None)
            failures[at] = f"arguments: {_line(error)}"
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        for at, call in enumerate(calls):
            if call is not None:
                try:
                    with record_function(f"replay:{at}"):
                        call()
                except Exception as error:
                    failures[at] = _line(error)
    recorded.export_chrome_trace(str(file))
    core = load_core(str(file), processes=1)
    file.unlink()
    rows = _rows_by_annotation(core)
    for at, plan in enumerate(plans):
        if at in failures:
            yield Outcome("failed", why=failures[at])
        elif at not in rows:
            yield Outcome("failed", why="nothing was recorded")
        else:
            yield compared(plan, observed(core, rows[at]), on_gpu=False)


def _rows_by_annotation(core: Core) -> dict[int, int]:
    """Number of a replay -> row of its outermost op."""
    c = core.columns
    is_outer = (c.kind == Kind.Op) & (core.annotation >= 0)
    parents = c.parent
    found: dict[int, int] = {}
    for row in np.flatnonzero(is_outer).tolist():
        name = core.names[c.name[core.annotation[row]]]
        if name.startswith("replay:") and (parents[row] < 0 or c.kind[parents[row]] != Kind.Op):
            found.setdefault(int(name.partition(":")[2]), row)
    return found


def _line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


def silence() -> None:
    """One thread, no warnings: recordings and replays are to be the same everywhere."""
    import warnings

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)


def share(tally: Tally, outcomes: Iterable[str]) -> float:
    """Percent of the calls with one of these outcomes."""
    wanted = set(outcomes)
    whole = sum(tally.counts.values())
    return 100 * sum(number for (_, outcome, _), number in tally.counts.items() if outcome in wanted) / max(whole, 1)
