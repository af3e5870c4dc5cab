"""The program of the collectives of a trace, between ranks that torchrun starts."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch import distributed

from tracelens_graph.replay.program.report import parsed, why, write_results

PLAN: dict[str, Any] = {}

# What stands below goes into programs.

DEFAULTS: dict[str, Any] = {
    "dtype": "", "in": 0, "out": 0, "place": 0, "root": 0, "in_split": [], "out_split": [], "parts": [], "source": None,
    "target": None, "message": "", "factor": 0.0, "all_ranks": False, "calls": 1, "traced_us": 0.0, "assumed": [],
}  # fmt: skip
"""Of a collective, what the plan does not show."""

BACKENDS = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}


def main() -> int:
    """Run every collective, and print a table on the first rank."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=BACKENDS, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--warmup", type=int, default=5, metavar="N", help="runs before those that are timed")
    parser.add_argument("--iterations", type=int, default=20, metavar="N", help="runs that are timed")
    parser.add_argument("--timeout", type=int, default=120, metavar="S", help="seconds to wait for other ranks")
    parser.add_argument("--json", metavar="FILE", help="write results")
    options = parsed(parser)
    if options.warmup < 0:
        parser.error("--warmup is 0 or more")
    if "RANK" not in os.environ:
        parser.error("start it with torchrun: torchrun --nproc-per-node N " + os.path.basename(__file__))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if options.device != "cpu":
        backend = getattr(torch, options.device)
        if local >= backend.device_count():
            parser.error(f"{local + 1} processes on a machine with {backend.device_count()} devices")
        backend.set_device(local)
    torch.manual_seed(0)
    distributed.init_process_group(BACKENDS[options.device], timeout=timedelta(seconds=options.timeout))
    try:
        results = run_all(options)
        if distributed.get_rank() == 0:
            show_table(results, options)
            write_results(options.json, results)
    except Exception as error:
        print(f"rank {distributed.get_rank()}: {why(error)}", file=sys.stderr)
        return 1
    finally:
        distributed.destroy_process_group()
    return 0


def run_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Results of all collectives. Every rank makes all groups; those outside of one wait for it."""
    groups: dict[tuple[int, ...], Any] = {}
    results = []
    for recorded in PLAN["collectives"]:
        case = fitted({**DEFAULTS, **recorded}, distributed.get_world_size())
        ranks = tuple(case["ranks"])
        if ranks not in groups:
            groups[ranks] = distributed.new_group(list(ranks))
        results.append(run_one(case, groups[ranks], options))
    return results


def fitted(recorded: dict[str, Any], world: int) -> dict[str, Any]:
    """A collective for the ranks that there are: with fewer than recorded, its group is the first of them.

    What a rank exchanges with each other one stays as it was.
    """
    case = {**recorded, "recorded_ranks": len(recorded["ranks"]), "notes": list(recorded["assumed"])}
    ranks, size = recorded["ranks"], len(recorded["ranks"])
    if max(ranks) >= world:
        case["ranks"] = ranks = list(range(min(size, world)))
        if len(ranks) < size:
            case["notes"].append(f"{ranks_text(len(ranks))} in place of {size}")
        else:
            case["notes"].append("other ranks of the job than recorded")
    count = len(ranks)
    if recorded["source"] is not None and count > 1:
        source, target = recorded["source"] % world, recorded["target"] % world
        case["source"], case["target"] = source, target if target != source else (source + 1) % world
        case["ranks"], case["recorded_ranks"] = sorted((case["source"], case["target"])), 2
    case["in"], case["out"] = parts(recorded, size, count)
    if recorded["in_split"]:
        case["matrix"] = matrix(recorded, count)
    return case


def parts(recorded: dict[str, Any], size: int, count: int) -> tuple[int, int]:
    """Elements that each rank puts in and gets out, in a group of `count` in place of `size`."""
    into, out, call = recorded["in"], recorded["out"], recorded["call"].removesuffix("_coalesced")
    if call in ("all_gather", "all_gather_into_tensor", "gather"):
        return into, into * count
    if call in ("reduce_scatter", "reduce_scatter_tensor", "scatter"):
        return out * count, out
    if call == "all_to_all_single":
        return into // size * count, into // size * count
    return into, out


def matrix(recorded: dict[str, Any], count: int) -> list[list[int]]:
    """Elements that each rank sends to each other one.

    One rank knows its own row and column; what two others exchange is taken to be between what it sends to the one and
    what it gets from the other.
    """
    sent, got, own = recorded["in_split"], recorded["out_split"], min(recorded["place"], count - 1)
    sent, got = ([*of[: count - 1], of[-1]] if recorded["place"] >= count else of[:count] for of in (sent, got))
    return [
        [sent[j] if i == own else got[i] if j == own else (sent[j] + got[i]) // 2 for j in range(count)]
        for i in range(count)
    ]


def run_one(case: dict[str, Any], group: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Median time of a collective, of each run the time of the slowest rank, and bandwidths in GB/s."""
    count, rank = len(case["ranks"]), distributed.get_rank()
    seconds, error = [0.0] * options.iterations, ""
    if rank in case["ranks"]:
        try:
            seconds = timed(prepared(case, group, options.device), group, options)
        except (RuntimeError, ValueError, TypeError) as failure:
            error = why(failure)
    figures = torch.tensor([*seconds, float(bool(error))], dtype=torch.float32, device=options.device)
    distributed.all_reduce(figures, distributed.ReduceOp.MAX)
    *seconds, failed = figures.tolist()
    result = {key: case[key] for key in ("kind", "dtype", "ranks", "calls", "traced_us", "notes")}
    result |= {"recorded_ranks": case["recorded_ranks"], "device": options.device, "torch": torch.__version__}
    if failed:
        errors: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(errors, error)
        return {**result, "error": next(filter(None, errors), "")}
    microseconds = sorted(1e6 * one for one in seconds)
    median = statistics.median(microseconds)
    moved = message_bytes(case)
    algorithm = moved / median / 1e3 if moved and median else None
    factor = case["factor"] * ((count - 1) / count if case["all_ranks"] else 1.0)
    low, high = (microseconds[round(share * (len(microseconds) - 1))] for share in (0.1, 0.9))
    return {
        **result,
        "bytes": moved,
        "median_us": median,
        "spread_us": [low, high],
        "iterations": options.iterations,
        "algorithm_gb_per_s": algorithm,
        "bus_gb_per_s": None if algorithm is None else algorithm * factor,
        "ratio_to_traced": median / case["traced_us"] if case["traced_us"] else None,
    }


def message_bytes(case: dict[str, Any]) -> int:
    """Size of the message: what a rank puts in, what it gets out, or the larger of the two, in bytes."""
    into, out = case["in"], case["out"]
    if "matrix" in case:
        own = min(case["place"], len(case["ranks"]) - 1)
        into, out = sum(case["matrix"][own]), sum(row[own] for row in case["matrix"])
    elements = {"in": into, "out": out, "larger": max(into, out), "": 0}[case["message"]]
    return elements * numbers(case, 0, "cpu").element_size() if elements else 0


def timed(call: Callable[[], Any], group: Any, options: argparse.Namespace) -> list[float]:
    """Seconds of each run; all ranks of the group begin together. On devices their events show it, else the clock."""
    backend = None if options.device == "cpu" else getattr(torch, options.device)
    seconds = []
    for number in range(options.warmup + options.iterations):
        distributed.barrier(group)
        if backend:
            backend.synchronize()
            begin, end = (backend.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            backend.synchronize()
            took = begin.elapsed_time(end) / 1e3
        else:
            started = time.perf_counter()
            call()
            took = time.perf_counter() - started
        if number >= options.warmup:
            seconds.append(took)
    return seconds


def numbers(case: dict[str, Any], elements: int, device: str) -> torch.Tensor:
    """A tensor of ones: sums of many of them stay small in every type, and the time does not depend on values."""
    return torch.ones(elements, dtype=torch.uint8, device=device).to(getattr(torch, case["dtype"]))


def prepared(case: dict[str, Any], group: Any, device: str) -> Callable[[], Any]:
    """The call of a collective, with its tensors made.

    Raises:
        ValueError: a transfer has no other end.
    """
    call, ranks, own = case["call"], case["ranks"], distributed.get_rank()
    root = ranks[min(case["root"], len(ranks) - 1)]
    function: Any = getattr(distributed, call.removesuffix("_coalesced"), None)
    made = partial(numbers, case, device=device)
    if call == "barrier":
        return lambda: distributed.barrier(group)
    if call.endswith("_coalesced"):
        return coalesced(function, case, group, device)
    if call in ONE_TENSOR:
        return partial(function, made(case["in"]), group=group, **dict.fromkeys(ONE_TENSOR[call], root))
    if call in ("transfer", "ring") and len(ranks) < 2:
        raise ValueError("a transfer needs two ranks")
    if call == "transfer":
        data = made(max(case["in"], case["out"]))
        if own == case["source"]:
            return lambda: distributed.send(data, case["target"], group=group)
        return lambda: distributed.recv(data, case["source"], group=group)
    if call == "ring":
        return ring(made(case["in"]), made(case["in"]), ranks, group)
    if call == "all_to_all_single" and "matrix" in case:
        at = ranks.index(own)
        sent, got = case["matrix"][at], [row[at] for row in case["matrix"]]
        return partial(function, made(sum(got)), made(sum(sent)), got, sent, group=group)
    if call not in LISTED:
        return partial(function, made(case["out"]), made(case["in"]), group=group)
    one, many = sorted((case["in"], case["out"]))
    single, listed = made(one), [made(many // len(ranks)) for _ in ranks]
    if name := LISTED[call]:
        return partial(function, single, listed if own == root else None, group=group, **{name: root})
    return partial(function, *((listed, single) if call == "all_gather" else (single, listed)), group=group)


ONE_TENSOR: dict[str, list[str]] = {"all_reduce": [], "broadcast": ["src"], "reduce": ["dst"]}
"""Calls with one tensor on every rank, and how they name their root."""
LISTED = {"all_gather": "", "reduce_scatter": "", "gather": "dst", "scatter": "src"}
"""The same of calls with a list of tensors on one side; all others have one tensor in and one out."""


def coalesced(function: Any, case: dict[str, Any], group: Any, device: str) -> Callable[[], Any]:
    """A call that takes several tensors at once."""
    count, name = len(case["ranks"]), function.__name__
    shares = {"all_reduce": [1], "all_gather_into_tensor": [count, 1], "reduce_scatter_tensor": [1, count]}[name]
    divisor = case["recorded_ranks"] if name == "reduce_scatter_tensor" else 1
    calls = [[numbers(case, part // divisor * share, device) for share in shares] for part in case["parts"]]

    def call() -> None:
        with distributed._coalescing_manager(group=group):
            for tensors in calls:
                function(*tensors, group=group)

    return call


def ring(into: torch.Tensor, out: torch.Tensor, ranks: list[int], group: Any) -> Callable[[], Any]:
    """Sends and receives in one batch: to the next rank, from the one before."""
    own = ranks.index(distributed.get_rank())

    def call() -> None:
        pairs = ((distributed.isend, into, ranks[(own + 1) % len(ranks)]), (distributed.irecv, out, ranks[own - 1]))
        for work in distributed.batch_isend_irecv([distributed.P2POp(*pair, group=group) for pair in pairs]):
            work.wait()

    return call


def show_table(results: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the results as a table of at most 80 columns, and what differs from the trace below it."""
    print(f"{len(results)} collectives of {PLAN['job']}")
    print(f"here: {ranks_text(distributed.get_world_size())}, {BACKENDS[options.device]} on {options.device}")
    print("us: median of the runs, of each the slowest rank; GB/s: message / us;")
    print("bus: of each link; traced: us, with the wait for other ranks; x: us / traced")
    form = "{:<28}{:>5}{:>9}{:>9}{:>7}{:>7}{:>9}{:>6}"
    print(form.format("collective", "ranks", "size", "us", "GB/s", "bus", "traced", "x"))
    for number, one in enumerate(results, 1):
        short = one["dtype"].replace("float", "f").replace("int", "i") if one["dtype"] else ""
        name = f"{number:>2} {one['kind'][: 24 - len(short)]} {short}"
        ranks = len(one["ranks"])
        shown = f"{ranks}/{one['recorded_ranks']}" if ranks != one["recorded_ranks"] else str(ranks)
        if "error" in one:
            print(f"{name:<28}{shown:>5}  failed: {one['error']}")
            continue
        *rates, ratio = (
            "" if one[key] is None else f"{one[key]:.3g}"
            for key in ("algorithm_gb_per_s", "bus_gb_per_s", "ratio_to_traced")
        )
        traced = f"{one['traced_us']:.1f}" if one["traced_us"] else ""
        cells = [size_text(one["bytes"]), f"{one['median_us']:.1f}", *rates, traced, ratio]
        print(form.format(name, shown, *cells))
    notes: dict[str, list[int]] = {}
    for number, one in enumerate(results, 1):
        for note in one["notes"]:
            notes.setdefault(note, []).append(number)
    for note, where in notes.items():
        print(f"{note}: {', '.join(map(str, where)) if len(where) < len(results) else 'all'}")
    for line in PLAN["left_out"]:
        print(f"left out: {line}")


def ranks_text(count: int) -> str:
    """A number of ranks."""
    return f"{count} rank{'s' * (count != 1)}"


def size_text(size: float) -> str:
    """A number of bytes, short: `16.4 kB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if size else ""
        size /= 1000
    return f"{size:.3g} GB"
