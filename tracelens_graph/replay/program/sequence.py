"""The program of operations in the order of a trace, which pass their results on to those behind them."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from tracelens_graph.replay.program.measure import measure_call, options, say, tensors, why
from tracelens_graph.replay.program.timing import BETWEEN_CALLS, restored, write
from tracelens_graph.replay.program.values import build_on, entered, extent, tensor

SEQUENCE: dict[str, Any] = {}


def steps() -> list[dict[str, Any]]:
    """The operations, in order."""
    return []


class Use:
    """A tensor where it is an argument: its number, its form where that is told, and the tensor that it is a view of.

    Autograd follows the call if `grad` is set. `table` and `key` tell where it is once the sequence is prepared.
    """

    def __init__(self, number: int, of: int | None, grad: bool, form: dict[str, Any]) -> None:
        self.number, self.of, self.grad, self.form = number, of, grad, form
        self.table: dict[Any, torch.Tensor] = {}
        self.key: Any = None


def use(
    number: int,
    shape: Sequence[int] | None = None,
    dtype: str = "",
    of: int | None = None,
    grad: bool = False,
    **told: Any,
) -> Use:
    """A tensor as an argument of a step; one that no step has made is made by what is told of it here."""
    return Use(number, of, grad, {} if shape is None else {"shape": shape, "dtype": dtype, **told})


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
        self._forms: dict[int, dict[str, Any]] = {}
        self._memory: dict[int, torch.UntypedStorage] = {}
        for place, step in enumerate(listed):
            self._prepare(place, step)
        self.made.clear()

    def _prepare(self, place: int, step: dict[str, Any]) -> None:
        """Run a step for the first time, with all that it needs and no step has made."""
        needed = list(uses([*step["positional"], *step["keyword"].values()]))
        for one in needed:
            one.form = self._forms[one.number] = one.form or self._forms[one.number]
        step["follows"] = any(one.grad for one in needed)
        try:
            step["function"] = attrgetter(step["call"])(torch.ops)
            if not isinstance(step["function"], torch._ops.OpOverload):
                raise TypeError("torch has no such operation")
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
            self.failed.append((place, why(error, step["call"].rpartition(".")[0].replace(".", "::", 1))))
        for number in step["frees"]:
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
        memory = self._memory.get(storage) if storage is not None else None
        if memory is not None:
            found = placed(memory, form)
            if found is not None:
                return found
        found = tensor(**form)
        if storage is not None:
            self._memory[storage] = found.untyped_storage()
        return restored(found) if number in self._written else found

    def _call(self, step: dict[str, Any]) -> None:
        keyword = {name: taken(value) for name, value in step["keyword"].items()}
        positional = [taken(value) for value in step["positional"]]
        if "modes" in step:
            with entered(step["modes"]):
                result = step["function"](*positional, **keyword)
        else:
            result = step["function"](*positional, **keyword)
        if step["follows"]:
            for one in tensors([*positional, *keyword.values()]):
                one.requires_grad_(False)
        for number, *path in step["makes"]:
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
            for number in step["frees"]:
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
    runtime = getattr(torch, asked.device)
    rounds: list[list[Any]] = []

    def mark() -> None:
        if asked.device == "cpu":
            rounds[-1].append(time.perf_counter_ns())
            return
        event = runtime.Event(enable_timing=True)
        event.record()
        rounds[-1].append(event)

    for _ in range(runs):
        for do in BETWEEN_CALLS:
            do()
        rounds.append([])
        mark()
        sequence.run(mark)
    runtime.synchronize()

    def between(begin: Any, end: Any) -> float:
        return (end - begin) / 1000 if asked.device == "cpu" else begin.elapsed_time(end) * 1000

    each = [[between(*pair) for pair in pairwise(marks)] for marks in rounds]
    return [statistics.median(times) for times in zip(*each, strict=True)]


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """What the sequence takes, beside what was traced."""
    for module in SEQUENCE["imports"]:
        import_module(module)
    build_on(asked.device)
    BETWEEN_CALLS.clear()
    listed = steps()
    sequence = Steps(listed, SEQUENCE["written"])
    if not sequence.ready:
        raise RuntimeError(f"no step could be run; the first: {sequence.failed[0][1] if listed else 'there is none'}")
    known = {
        "op": SEQUENCE["title"],
        "signature": None,
        "traced_us": sum(step["traced_us"] for step in sequence.ready),
        "kernels": [],
        "is_gpu": SEQUENCE["is_gpu"],
        "assumed": SEQUENCE["assumed"],
    }
    result = measure_call(sequence.run, known, asked)
    each = each_us(sequence, asked, result["iterations"]) if asked.each else [None] * len(sequence.ready)
    memory = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in sequence.given.values()}
    return {
        **result,
        "kernels_as_traced": None,
        "is_graph": asked.graph,
        "given_bytes": sum(memory.values()),
        "steps": [
            {"op": step["call"], "median_us": took, "traced_us": step["traced_us"]}
            for step, took in zip(sequence.ready, each, strict=True)
        ],
        "failed": [{"op": listed[place]["call"], "step": place + 1, "why": cause} for place, cause in sequence.failed],
        "unlike": len(sequence.unlike),
    }


def show_sequence(result: dict[str, Any]) -> None:
    """Print the result, at most 80 columns wide."""
    low, high = result["spread_us"]
    count = len(result["steps"])
    steps_run = f"{count} step{'s' * (count != 1)}"
    say("sequence", f"{steps_run} of {result['op']} on {result['device']}, torch {result['torch']}")
    how = ", as a CUDA graph" if result["is_graph"] else ""
    say("median", f"{result['median_us']:.1f} us ({low:.1f}-{high:.1f} in 80 % of {result['iterations']} runs){how}")
    ratio = f"; this is {result['ratio_to_traced']:.3g} times that" if result["ratio_to_traced"] else ""
    say("traced", f"{result['traced_us']:.1f} us, {SEQUENCE['traced']}{ratio}")
    say("memory", f"{result['given_bytes'] / 1e6:,.1f} MB of tensors that no step makes")
    say("tensors", SEQUENCE["sharing"])
    if result["unlike"]:
        say("unlike", f"results that are not as traced: {result['unlike']}; later steps got tensors of their own")
    for line in SEQUENCE["left_out"]:
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
    parser.add_argument("--cap-bytes", help=argparse.SUPPRESS)
    parser.add_argument("--each", action="store_true", help="time each step, too")
    asked = parser.parse_args()
    if asked.cap_bytes is not None:
        parser.error("only a program of one operation can shrink its sizes: here, those of results follow from them")
    try:
        result = measured(asked)
        show_sequence(result)
        if asked.json:
            write(asked.json, lambda part: Path(part).write_text(json.dumps([result], indent=1)))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"{SEQUENCE['title']}: {why(error)}", file=sys.stderr)
        return 1
    return 0
