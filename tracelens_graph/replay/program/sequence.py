"""The program of operations in the order of a trace, which pass their results on to those behind them."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch

from tracelens_graph.replay.program.measure import (
    BETWEEN_CALLS,
    measure_call,
    operator,
    options,
    ready,
    restored,
    runtime,
)
from tracelens_graph.replay.program.report import ended, parsed, say, why, write_results
from tracelens_graph.replay.program.values import (
    BUILDERS,
    build_on,
    built,
    built_tensor,
    entered,
    extent,
    storages_of,
    tensors,
)

PLAN: dict[str, Any] = {}

# What stands below goes into programs.


class Use:
    """A tensor where it is an argument: its number, its form, and the result that it is a view of.

    Autograd follows the call if the form says so. `table` and `key` say where it is once the sequence is prepared.
    """

    def __init__(self, number: int, tensor: dict[str, Any], of: int | None = None) -> None:
        self.number, self.of, self.form = number, of, dict(tensor)
        self.grad = bool(self.form.pop("grad", False))
        self.table: dict[Any, torch.Tensor] = {}
        self.key: Any = None


BUILDERS["use"] = lambda entry: Use(**entry)


def step_of(entry: dict[str, Any]) -> dict[str, Any]:
    """An operation with its arguments, its tensors by number."""
    plan = entry["plan"]
    traced = plan.get("traced", {}).get("kernel_us" if PLAN["is_gpu"] else "host_us", 0.0)
    given = [{name: built(value) for name, value in plan.get(way, {}).items()} for way in ("positional", "keyword")]
    return {**entry, "op": plan["op"], "traced_us": traced, "positional": list(given[0].values()), "keyword": given[1]}


class Steps:
    """The operations and the tensors between them.

    Attributes:
        ready: the operations that ran when the sequence was prepared.
        failed: place and error of those that did not.
        given: tensors that no step makes. They are made before the first step that needs them, and stay.
        made: results that a later step needs. They go after the last of these.
        unlike: numbers of results that are of other sizes than traced, or of no use to a later step, so that others
            were made in their place.
    """

    def __init__(self, listed: list[dict[str, Any]], written: list[int]) -> None:
        self.ready: list[dict[str, Any]] = []
        self.failed: list[tuple[int, str]] = []
        self.given: dict[Any, torch.Tensor] = {}
        self.made: dict[Any, torch.Tensor] = {}
        self.unlike: set[int] = set()
        self._written = set(written)
        self._memory: dict[int, torch.UntypedStorage] = {}
        for place, step in enumerate(listed):
            self._prepare(place, step)
        self.made.clear()

    def _prepare(self, place: int, step: dict[str, Any]) -> None:
        """Run a step for the first time, with all that it needs and no step has made."""
        needed = list(uses([*step["positional"], *step["keyword"].values()]))
        step["follows"] = any(one.grad for one in needed)
        try:
            step["function"] = operator(step["plan"])
            for one in needed:
                self._bind(one)
            try:
                self._call(step)
            except RuntimeError:
                # Results of numbers drawn at random may be of no use, such as probabilities that are not finite.
                if all(one.table is self.given for one in needed):
                    raise
                for one in needed:
                    self._give(one)
                self._call(step)
            self.ready.append(step)
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
            self.failed.append((place, why(error, step["op"])))
        for number in step.get("frees", []):
            self.made.pop(number, None)

    def _bind(self, one: Use) -> None:
        form, found = one.form, self.made.get(one.number)
        if found is not None and (list(found.shape), found.dtype) == (form["shape"], getattr(torch, form["dtype"])):
            one.table, one.key = self.made, one.number
            return
        if one.of is not None and one.of in self.made:
            one.table, one.key = self.made, one.of
            return
        self._give(one)

    def _give(self, one: Use) -> None:
        """Have a use take a tensor that no step makes."""
        self.unlike |= {one.number} & self.made.keys()
        one.of, one.table, one.key = None, self.given, (one.number, *one.form["shape"], one.form["dtype"])
        if one.key not in self.given:
            self.given[one.key] = self._build(one.number, dict(one.form))

    def _build(self, number: int, form: dict[str, Any]) -> torch.Tensor:
        storage = form.pop("storage", None)
        found = placed(self._memory[storage], form) if storage in self._memory else None
        if found is not None:
            return found
        found = built_tensor(form)
        if storage is not None:
            self._memory[storage] = found.untyped_storage()
        return restored(found) if number in self._written else found

    def _call(self, step: dict[str, Any]) -> None:
        keyword = {name: taken(value) for name, value in step["keyword"].items()}
        positional = [taken(value) for value in step["positional"]]
        with entered(step["plan"].get("modes", [])):
            result = step["function"](*positional, **keyword)
        if step["follows"]:
            for one in tensors([*positional, *keyword.values()]):
                one.requires_grad_(False)
        for number, *path in step.get("makes", []):
            found = result
            for at in path:
                found = found[at]
            if isinstance(found, torch.Tensor):
                self.made[number] = unfollowed(found) if step["follows"] else found

    def run(self, after: Callable[[], Any] | None = None) -> None:
        """Run all steps.

        Args:
            after: called after each step.
        """
        for step in self.ready:
            self._call(step)
            for number in step.get("frees", []):
                self.made.pop(number, None)
            if after:
                after()
        self.made.clear()


def uses(values: Sequence[Any]) -> Iterator[Use]:
    """Tensors by number among arguments."""
    for value in values:
        if isinstance(value, Use):
            yield value
        elif isinstance(value, list):
            yield from uses(value)


def taken(value: Any) -> Any:
    """An argument, with tensors in the place of their numbers."""
    if isinstance(value, list):
        return [taken(one) for one in value]
    if not isinstance(value, Use):
        return value
    found = value.table[value.key]
    if value.of is not None:
        view = unseen(placed, found.untyped_storage(), value.form)
        found = found if view is None else view
    return found.requires_grad_() if value.grad else found


def unseen(call: Callable[..., Any], *given: Any) -> Any:
    """What a call returns that is none of the sequence's, and that profilers are not to see."""
    torch._C._autograd._enable_record_function(False)
    try:
        return call(*given)
    finally:
        torch._C._autograd._enable_record_function(True)


def unfollowed(value: torch.Tensor) -> torch.Tensor:
    """The tensor without what autograd knows of it; a view becomes another tensor."""
    if not value.requires_grad:
        return value
    return unseen(value.detach if value._is_view() else value.detach_)


def placed(memory: torch.UntypedStorage, form: dict[str, Any]) -> torch.Tensor | None:
    """A tensor in memory that is there; None where it does not fit."""
    shape, strides, span = extent(form["shape"], form.get("strides"))
    found = torch.empty(0, dtype=getattr(torch, form["dtype"]), device=memory.device)
    if (form.get("offset", 0) + span) * found.element_size() > memory.nbytes():
        return None
    return found.set_(memory, form.get("offset", 0), shape, strides)


def each_us(sequence: Steps, asked: argparse.Namespace, runs: int) -> list[float]:
    """Median over some runs of the microseconds of each step: between events on the device, by the clock on a CPU."""
    rounds: list[list[Any]] = []

    def mark() -> None:
        rounds[-1].append(time.perf_counter() if asked.device == "cpu" else runtime().Event(enable_timing=True))
        if asked.device != "cpu":
            rounds[-1][-1].record()

    for _ in range(runs):
        ready()
        rounds.append([])
        mark()
        sequence.run(mark)
    runtime().synchronize()
    ms = [
        [1e3 * (end - begin) if asked.device == "cpu" else begin.elapsed_time(end) for begin, end in pairwise(marks)]
        for marks in rounds
    ]
    return [1e3 * statistics.median(times) for times in zip(*ms, strict=True)]


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """What the sequence takes, beside what was traced."""
    build_on(asked.device)
    BETWEEN_CALLS.clear()
    listed = list(map(step_of, PLAN["steps"]))
    sequence = Steps(listed, PLAN["written"])
    if not sequence.ready:
        raise RuntimeError(f"no step could be run; the first: {sequence.failed[0][1] if listed else 'there is none'}")
    known = {
        "op": PLAN["title"],
        "signature": None,
        "traced_us": sum(step["traced_us"] for step in sequence.ready),
        "kernels": [],
        "is_gpu": PLAN["is_gpu"],
        "assumed": PLAN["assumed"],
    }
    result = measure_call(sequence.run, known, asked)
    each = each_us(sequence, asked, result["iterations"]) if asked.each else [None] * len(sequence.ready)
    places = {place._cdata: place.nbytes() for one in sequence.given.values() for place in storages_of(one)}
    return {
        **result,
        "kernels_as_traced": None,
        "is_graph": asked.graph,
        "given_bytes": sum(places.values()),
        "steps": [
            {"op": step["op"], "median_us": took, "traced_us": step["traced_us"]}
            for step, took in zip(sequence.ready, each, strict=True)
        ],
        "failed": [{"op": listed[place]["op"], "step": place + 1, "why": cause} for place, cause in sequence.failed],
        "unlike": len(sequence.unlike),
    }


def show_sequence(result: dict[str, Any]) -> None:
    """Print the result, at most 80 columns wide."""
    low, high = result["spread_us"]
    count = len(result["steps"])
    steps_run = f"{count} step{'s' * (count != 1)}"
    say("sequence", f"{steps_run} of {result['op']} on {result['device']}, torch {result['torch']}")
    how = ", as a CUDA graph" if result["is_graph"] else ""
    say("median", f"{result['median_us']:.1f} us ({low:.1f}-{high:.1f} in half of {result['iterations']} runs){how}")
    ratio = f"; this is {result['ratio_to_traced']:.3g} times that" if result["ratio_to_traced"] else ""
    say("traced", f"{result['traced_us']:.1f} us, {PLAN['traced']}{ratio}")
    say("memory", f"{result['given_bytes'] / 1e6:,.1f} MB of tensors that no step makes")
    say("tensors", PLAN["sharing"])
    if result["unlike"]:
        say("unlike", f"results that are not as traced: {result['unlike']}; later steps got tensors of their own")
    for line in PLAN["left_out"]:
        say("left out", line)
    failed: dict[tuple[str, str], list[int]] = {}
    for one in result["failed"]:
        failed.setdefault((one["op"], one["why"]), []).append(one["step"])
    for (op, cause), places in failed.items():
        say("failed", f"{len(places)} x {op}, first at step {places[0]}: {cause}")
    if result["steps"][0]["median_us"] is not None:
        print(f"{'step':>5} {'operation':<42} {'us':>9} {'traced us':>10} {'x':>7}")
        for place, one in enumerate(result["steps"], 1):
            compared = one["traced_us"] and result["ratio_to_traced"]
            ratio = f"{one['median_us'] / one['traced_us']:.3g}" if compared else ""
            print(f"{place:>5} {one['op'][:42]:<42} {one['median_us']:>9.1f} {one['traced_us']:>10.1f} {ratio:>7}")


def main() -> int:
    """Measure the sequence."""
    parser = options(__doc__)
    parser.add_argument("--each", action="store_true", help="time each step, too")
    asked = parsed(parser)
    return ended(lambda: run(asked), PLAN["title"], asked)


def run(asked: argparse.Namespace) -> int:
    """Measure the sequence, and print what it takes."""
    result = measured(asked)
    show_sequence(result)
    write_results(asked.json, [result])
    return 0
