"""Options of programs, and the measurement of one operation."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any

import torch

from tracelens_graph.replay.program.timing import BETWEEN_CALLS, profiled, times_us
from tracelens_graph.replay.program.values import build_on, entered

UNCAPPED = 1 << 40


def options(about: str | None) -> argparse.ArgumentParser:
    """What can be asked for."""
    found = [name for name in ("cuda", "xpu") if hasattr(torch, name) and getattr(torch, name).is_available()]
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", choices=["cuda", "xpu", "cpu"], default=[*found, "cpu"][0], help="cuda is that of ROCm, too")
    add("--warmup", type=int, default=10, metavar="N", help="calls before those that are timed (default: 10)")
    add("--iterations", type=int, default=100, metavar="N", help="calls that are timed (default: 100)")
    add("--flush-l2", action="store_true", help="empty the cache between calls")
    add("--graph", action="store_true", help="time the call as a CUDA graph")
    add("--cap-bytes", type=int, metavar="N", help="shrink sizes until all tensors together take no more")
    add("--json", metavar="FILE", help="write results")
    add("--profile", default="", metavar="FILE", help="write the profiler's trace of one call")
    add("--execution-trace", default="", metavar="FILE", help="write the execution trace of that call")
    return parser


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in arguments."""
    if isinstance(value, (list, tuple)):
        return [found for one in value for found in tensors(one)]
    return [value] if isinstance(value, torch.Tensor) else []


def capped(make: Callable[[], Any], cap: int) -> int:
    """The largest size of any dimension with which all tensors fit."""
    largest = UNCAPPED
    while largest > 1:
        build_on("meta", largest)
        positional, keyword = make()
        if sum(one.untyped_storage().nbytes() for one in tensors([*positional, *keyword.values()])) <= cap:
            break
        largest //= 2
    return largest


def measure(operation: dict[str, Any], make: Callable[[], Any], asked: argparse.Namespace) -> dict[str, Any]:
    """What a call of an operation takes and does, beside what was traced."""
    for module in operation.get("imports", []):
        import_module(module)
    call = attrgetter(operation["call"])(torch.ops)
    if not isinstance(call, torch._ops.OpOverload):
        raise TypeError("torch has no such operation")
    largest = UNCAPPED if asked.cap_bytes is None else capped(make, asked.cap_bytes)
    build_on(asked.device, largest)
    BETWEEN_CALLS.clear()
    positional, keyword = make()
    positional = [[min(n, largest) if type(n) is int else n for n in a] if type(a) is list else a for a in positional]
    with entered(operation.get("modes", [])):
        return measure_call(lambda: call(*positional, **keyword), operation, asked, largest)


def measure_call(call: Callable[[], Any], known: dict[str, Any], asked: Any, largest: int = UNCAPPED) -> dict[str, Any]:
    """What a call takes and does, beside what is known of it."""
    runtime, on_gpu = getattr(torch, asked.device), asked.device != "cpu"
    if asked.flush_l2:
        BETWEEN_CALLS.append(torch.empty(1 << 28, dtype=torch.int8, device=asked.device).zero_)
    times_us(call, asked.warmup)
    timed = call
    if asked.graph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        timed = graph.replay
    times = sorted(times_us(timed, max(asked.iterations, 1)))
    wanted = on_gpu or asked.profile or asked.execution_trace
    work = profiled(call, asked.profile, asked.execution_trace) if wanted else []
    kernels = [name for name, _ in work]
    median = statistics.median(times)
    same = known if largest == UNCAPPED else {}
    return {
        **{key: known[key] for key in ("op", "signature")},
        "device": runtime.get_device_name() if on_gpu else "cpu",
        "torch": torch.__version__,
        "median_us": median,
        "spread_us": [times[len(times) // 10], times[len(times) * 9 // 10]],
        "iterations": len(times),
        "tflops": same["flops"] / median / 1e6 if same.get("flops") else None,
        "tbytes_per_s": same["bytes"] / median / 1e6 if same.get("bytes") else None,
        "percent_of_roof": 100 * same["roof_us"] / median if same.get("roof_us") else None,
        "traced_us": known["traced_us"] or None,
        "ratio_to_traced": median / same["traced_us"] if same.get("traced_us") else None,
        "kernel_us": sum(us for _, us in work) if work else None,
        "kernels": kernels,
        "kernels_as_traced": kernels == known["kernels"] if on_gpu else None,
        "assumed": known["assumed"],
        "largest_size": None if same else largest,
    }


def show(result: dict[str, Any]) -> None:
    """Print what there is of a result."""
    for name, value in result.items():
        if name != "signature" and value not in (None, []):
            cells = value if type(value) is list else [value]
            rounded = [round(one, 2 if one >= 1 else 6) if type(one) is float else one for one in cells]
            print(f"{name:17}", "; ".join(map(str, rounded)))
