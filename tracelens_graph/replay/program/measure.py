"""Options of programs, and the measurement of one call on whatever device a program runs on."""

from __future__ import annotations

import argparse
import os
import sys
import timeit
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from typing import Any

import torch

from tracelens_graph.replay.program.kernel import launcher
from tracelens_graph.replay.program.report import quartiles, write
from tracelens_graph.replay.program.values import build_on, built, device, storages_of, tensors

# What stands below goes into programs.

UNCAPPED = 1 << 40
BETWEEN_CALLS: list[Callable[[], Any]] = []


def options(about: str | None) -> argparse.ArgumentParser:
    """What can be asked for."""
    there = [kind for kind in ("cuda", "xpu") if hasattr(torch, kind)]
    found = [*(f"{kind}:{n}" for kind in there for n in range(getattr(torch, kind).device_count())), "cpu"]
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", default=found[0], choices=found, help="such as cuda:1; cuda is that of ROCm, too",
        type=lambda name: name + ":0" * (name + ":0" in found))  # fmt: skip
    add("--warmup", type=int, default=10, metavar="N", help="calls before those that are timed (default: 10)")
    add("--iterations", type=int, metavar="N", help="calls that are timed (default: 100, on a CPU 10)")
    add("--flush-l2", action="store_true", help="empty the cache between calls")
    add("--graph", action="store_true", help="time the call as a CUDA graph")
    add("--json", nargs="?", const="-", metavar="FILE", help="write results; without a name to standard output")
    add("--reference", action="store_true", help="run plain torch in place of operations of serving libraries")
    add("--profile", default="", metavar="FILE", help="write the profiler's trace of one call")
    add("--execution-trace", default="", metavar="FILE", help="write the execution trace of that call")
    return parser


def operator(plan: dict[str, Any]) -> Any:
    """The operation of a plan, once what registers it is imported; of a launch what launches it."""
    if "launch" in plan:
        return launcher(**plan["launch"])
    for module in plan.get("imports", []) if "--reference" not in sys.argv else []:
        import_module(module)
    namespace, _, name = plan["op"].partition("::")
    found = attrgetter(f"{namespace}.{name.replace('::', '.')}.{plan.get('overload') or 'default'}")(torch.ops)
    if not isinstance(found, torch._ops.OpOverload):
        raise TypeError("torch has no such operation")
    return found


def arguments(plan: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a plan, made; those that a call writes get back between calls what they held."""
    made = [{name: built(value) for name, value in plan.get(way, {}).items()} for way in ("positional", "keyword")]
    for name in plan.get("restored", []):
        for one in tensors((made[0] | made[1])[name]):
            restored(one)
    return list(made[0].values()), made[1]


def restored(value: torch.Tensor) -> torch.Tensor:
    """A tensor that the call writes: it gets contents, sizes and strides back between calls."""
    if value.layout != torch.strided:
        before = value.clone()
        BETWEEN_CALLS.append(lambda: value.copy_(before))
        return value
    storage, place = value.untyped_storage(), (value.storage_offset(), value.size(), value.stride())
    contents = storage.clone()

    def restore() -> None:
        storage.resize_(contents.nbytes())
        storage.copy_(contents)
        value.set_(storage, *place)

    BETWEEN_CALLS.append(restore)
    return value


def called(plan: dict[str, Any], positional: list[Any], keyword: dict[str, Any]) -> Callable[[], Any]:
    """The call of a plan: of its operation, or of its gradient, for which the operation runs once before."""
    call = operator(plan)
    if "gradient" not in plan:
        return lambda: call(*positional, **keyword)
    results = tensors([call(*positional, **keyword)])
    given = [(one, built(grad)) for one, grad in zip(results, plan["gradient"], strict=False) if grad is not None]
    followed = [one for one in tensors([*positional, *keyword.values()]) if one.requires_grad]
    made, grads = zip(*given, strict=True)
    return lambda: torch.autograd.grad(made, followed, grads, retain_graph=True)


def bytes_of(make: Callable[[], tuple[list[Any], dict[str, Any]]], largest: int = UNCAPPED) -> int:
    """Bytes of arguments, with no size above the largest, without making them."""
    build_on("meta", largest)
    positional, keyword = make()
    BETWEEN_CALLS.clear()
    places = [place for one in tensors([*positional, *keyword.values()]) for place in storages_of(one)]
    return sum({place._cdata: place.nbytes() for place in places}.values())


def check_fits(make: Callable[[], tuple[list[Any], dict[str, Any]]], name: str) -> None:
    """Make sure that arguments fit into the free memory of the device before they are made there.

    Raises:
        MemoryError: they do not.
    """
    try:
        free = getattr(torch, name.partition(":")[0]).mem_get_info(name)[0]
    except (AttributeError, RuntimeError):  # a CPU, or a device that does not show
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 62
    if (wanted := bytes_of(make)) > free:
        raise MemoryError(f"its tensors need {wanted / 1e9:,.1f} GB, and {name} has {free / 1e9:,.1f} GB free")


def known_of(plan: dict[str, Any]) -> dict[str, Any]:
    """What a plan says of an operation besides its arguments."""
    work, traced = plan.get("work", {}), plan.get("traced", {})
    return {
        "op": (traced["within"] if "gradient" in plan else plan["op"])
        + " (reference)" * ("--reference" in sys.argv and bool(plan.get("imports"))),
        "signature": {"dims": [], "types": [], "strides": [], "values": []} | plan.get("recorded", {}),
        **{key: work.get(key) for key in ("flops", "bytes", "roof_us")},
        "count": traced.get("calls", 1),
        "percent": traced.get("percent"),
        "trace": traced.get("trace", ""),
        "traced_us": traced.get("median_us", 0.0),
        "total_us": traced.get("total_us", 0.0),
        "kernels": traced.get("kernels", []),
        "modes": plan.get("modes", []),
        "assumed": [f"{name}: {why}" for name, why in plan.get("assumed", {}).items()],
    }


def times_us(call: Callable[[], Any], device: str, calls: int) -> list[float]:
    """Microseconds of each of some calls: between two events on the device, on a CPU by the clock."""
    gpu = runtime()
    # What stands below is in short programs, too.
    us = [1e6 * seconds for seconds in timeit.repeat(call, ready, number=1, repeat=calls * (device == "cpu"))]
    events = [[gpu.Event(enable_timing=True) for _ in range(2)] for _ in range(calls * (device != "cpu"))]
    events and (gpu.set_device(device), getattr(gpu, "_sleep", int)(20_000_000))  # the host gets ahead of the device
    [(ready(), begin.record(), call() is None, end.record()) for begin, end in events]
    us += [1e3 * begin.elapsed_time(end) for begin, end in events if end.synchronize() is None]
    return us


def ready() -> list[Any]:
    """Do what is done between calls."""
    return [do() for do in BETWEEN_CALLS]


def runtime() -> Any:
    """What torch has for the device: `torch.cuda`, `torch.cpu`."""
    return getattr(torch, device("device").type)


def profiled(call: Callable[[], Any], trace: str = "", execution_trace: str = "") -> list[tuple[str, float]]:
    """Names and microseconds of the GPU work of one call, in order. Files get what was recorded, if they are given."""
    also = {}
    if execution_trace:
        also["execution_trace_observer"] = torch.profiler.ExecutionTraceObserver().register_callback(execution_trace)
    ready()
    with torch.profiler.profile(record_shapes=True, **also) as session:
        call()
        runtime().synchronize()
    if trace:
        write(trace, session.export_chrome_trace)
    work = [event for event in session.events() if event.device_type != torch.autograd.DeviceType.CPU]
    return [(event.name, event.time_range.elapsed_us()) for event in sorted(work, key=lambda one: one.time_range.start)]


def measure_call(call: Callable[[], Any], known: dict[str, Any], asked: Any, largest: int = UNCAPPED) -> dict[str, Any]:
    """What a call takes and does, beside what is known of it."""
    on_gpu = asked.device != "cpu"
    if asked.flush_l2:
        BETWEEN_CALLS.append(torch.empty(1 << 28, dtype=torch.int8, device=asked.device).zero_)
    times_us(call, asked.device, asked.warmup)
    timed = call
    if asked.graph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        timed = graph.replay
    times = times_us(timed, asked.device, asked.iterations or (100 if on_gpu else 10))
    wanted = on_gpu or asked.profile or asked.execution_trace
    work = profiled(call, asked.profile, asked.execution_trace) if wanted else []
    kernels = [name for name, _ in work]
    low, median, high = quartiles(times)
    same = known if largest == UNCAPPED else {}
    alike = same if on_gpu == known.get("is_gpu", True) else {}  # what a GPU took says nothing of a CPU
    return {
        **{key: known[key] for key in ("op", "signature")},
        "count": known.get("count", 1),
        "device": runtime().get_device_name() if on_gpu else "cpu",
        "torch": torch.__version__,
        "settings": settings(known.get("modes", [])),
        "library": torch.version.hip or torch.version.cuda or "",
        "driver": driver() if on_gpu else "",
        "percent": known.get("percent"),
        "trace": known.get("trace", ""),
        "median_us": median,
        "spread_us": [low, high],
        "iterations": len(times),
        "tflops": same["flops"] / median / 1e6 if same.get("flops") else None,
        "tbytes_per_s": same["bytes"] / median / 1e6 if same.get("bytes") else None,
        "percent_of_roof": 100 * alike["roof_us"] / median if alike.get("roof_us") else None,
        "traced_us": known["traced_us"] or None,
        "total_us": known.get("total_us") or None,
        "ratio_to_traced": median / alike["traced_us"] if alike.get("traced_us") else None,
        "kernel_us": sum(us for _, us in work) if work else None,
        "kernels": kernels,
        "kernels_as_traced": kernels == known["kernels"] if on_gpu else None,
        "assumed": known["assumed"],
        "largest_size": None if same else largest,
    }


def settings(modes: list[str]) -> dict[str, Any]:
    """What PyTorch is set to where that changes which kernels run, and the modes of the call, such as autocast."""
    names = ("cuda.matmul.allow_tf32", "cudnn.allow_tf32", "cudnn.benchmark", "cudnn.deterministic")
    return {
        **{name: attrgetter(name)(torch.backends) for name in names},
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        **dict.fromkeys([mode for mode in modes if "=" not in mode], True),
    }


def driver() -> str:
    """The version of the device's driver, and the clock of its processors in MHz where something shows it."""
    clock = "nvidia-smi --query-gpu=clocks.sm --format=csv,noheader,nounits"
    asked = "cat /sys/module/nvidia/version /sys/module/amdgpu/version", clock
    version, mhz = (os.popen(f"({one}) 2>/dev/null").readline().strip() for one in asked)
    with suppress(Exception):  # what it asks is not installed, or not allowed
        mhz = mhz or str(torch.cuda.clock_rate())
    return f"{version}, {mhz} MHz" if mhz.isdigit() else version
