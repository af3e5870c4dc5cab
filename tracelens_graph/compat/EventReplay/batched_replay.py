"""Operations of a trace, called again one after another; operations.json beside this file lists them.

Written by tracelens_graph 0.1.0; needs PyTorch and nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

DEVICE = "cpu"
LARGEST = 1 << 62
RULES: dict[str, Callable[..., Any]] = {}
STORAGES: dict[tuple[Any, ...], Any] = {}


def rule(fill: Callable[..., None]) -> Callable[..., None]:
    """Let tensors be filled by this function, under its name."""
    RULES[fill.__name__] = fill
    return fill


def build_on(device: str, largest: int = LARGEST) -> None:
    """Make tensors on this device, with no size above the largest."""
    global DEVICE, LARGEST
    DEVICE, LARGEST = device, largest
    STORAGES.clear()
    torch.manual_seed(0)


def entered(modes: Sequence[str]) -> ExitStack:
    """Modes that PyTorch is in until this is left: `no_grad`, `below_autograd`, `autocast bfloat16`."""
    stack, known = ExitStack(), {"no_grad": torch.no_grad, "below_autograd": torch._C._AutoDispatchBelowAutograd}
    for name, *dtype in map(str.split, modes):
        of_dtype = [DEVICE.partition(":")[0], *(getattr(torch, one) for one in dtype)]
        stack.enter_context(torch.autocast(*of_dtype) if dtype else known[name]())
    return stack


@rule
def normal(flat: torch.Tensor) -> None:
    """Normally distributed numbers."""
    if flat.dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128):
        flat.normal_()
    else:
        flat.copy_(torch.randn(flat.shape, device=flat.device))


def tensor(
    shape: Sequence[int],
    dtype: str,
    strides: Sequence[int] | None = None,
    fill: str = "normal",
    offset: int = 0,
    on_cpu: bool = False,
    reach: int = 0,
    grad: bool = False,
    conj: bool = False,
    **options: Any,
) -> torch.Tensor:
    """A tensor over a storage that a rule filled, which has at least as many elements as are to be reached."""
    shape, strides, span = extent(shape, strides)
    device = "cpu" if on_cpu and DEVICE != "meta" else DEVICE
    flat = torch.empty(max(offset + span, min(reach, LARGEST)), dtype=getattr(torch, dtype), device=device)
    RULES[fill](flat, **options)
    made = torch.empty(0, dtype=flat.dtype, device=device).set_(flat.untyped_storage(), offset, shape, strides)
    # A product needs a gradient and is no leaf, so that ops may write it.
    made = made.mul_(torch.ones((), dtype=flat.dtype, device=device, requires_grad=True)) if grad else made
    return made.conj() if conj else made


def extent(shape: Sequence[int], strides: Sequence[int] | None) -> tuple[list[int], list[int], int]:
    """Sizes, strides in the same order of dimensions, and how many elements they span."""
    if strides is None or any(size > LARGEST for size in shape):
        order = sorted(range(len(shape)), key=lambda at: (strides[at] if strides else 0, -at))
        was, strides, step = strides, [0] * len(shape), 1
        for at in order:
            size = min(shape[at], LARGEST)
            if was is None or was[at]:
                strides[at], step = step, step * max(size, 1)
    shape = [min(size, LARGEST) for size in shape]
    span = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    return shape, list(strides), span


def shared(
    shape: Sequence[int],
    dtype: str,
    storage: int,
    strides: Sequence[int] | None = None,
    fill: str = "normal",
    offset: int = 0,
    on_cpu: bool = False,
    reach: int = 0,
    grad: bool = False,
    conj: bool = False,
    **options: Any,
) -> torch.Tensor:
    """A tensor in a storage that others of that number are in, too; what it holds is what the last one needs."""
    shape, strides, span = extent(shape, strides)
    found = torch.empty(0, dtype=getattr(torch, dtype), device="cpu" if on_cpu and DEVICE != "meta" else DEVICE)
    memory = STORAGES.setdefault((storage, on_cpu), found.untyped_storage())
    span = max(offset + span, min(reach, LARGEST))
    memory.resize_(max(memory.nbytes(), span * found.element_size()))
    flat = found.new_empty(0).set_(memory, 0, [span], [1])
    RULES[fill](flat[offset:], **options)
    found.set_(memory, offset, shape, strides)
    found = found.mul_(torch.ones((), dtype=found.dtype, device=found.device, requires_grad=True)) if grad else found
    # What is told alike twice is one tensor: some ops ask whether two arguments are.
    key = (storage, on_cpu, offset, *shape, *strides, dtype, grad, conj)
    return STORAGES.setdefault(key, found.conj() if conj else found)


def dtype(name: str) -> torch.dtype:
    """A type of elements."""
    return getattr(torch, name)


def layout(name: str) -> torch.layout:
    """How elements are held."""
    return getattr(torch, name)


def memory_format(name: str) -> torch.memory_format:
    """An order of dimensions."""
    return getattr(torch, name)


def device(name: str) -> torch.device:
    """The program's device, or the host."""
    return torch.device(DEVICE if name == "device" else name)


def generator() -> torch.Generator:
    """A source of random numbers."""
    return torch.Generator(DEVICE).manual_seed(0)


@rule
def zeros(flat: torch.Tensor) -> None:
    """Nothing but zero."""
    flat.zero_()


@rule
def constant(flat: torch.Tensor, value: float) -> None:
    """One number everywhere."""
    flat.copy_(torch.full(flat.shape, value, device=flat.device))


@rule
def integers(flat: torch.Tensor, high: int, low: int = 0) -> None:
    """Whole numbers from low on and below high."""
    high = max(min(high, LARGEST), low + 1)
    flat.copy_(torch.randint(low, high, flat.shape, device=flat.device))


@rule
def uniform(flat: torch.Tensor, low: float = 0.0, high: float = 1.0) -> None:
    """Numbers between two, all equally likely."""
    flat.copy_(torch.rand(flat.shape, device=flat.device) * (high - low) + low)


@rule
def mask(flat: torch.Tensor, share: float = 0.5) -> None:
    """True in so many places, by chance."""
    flat.copy_(torch.rand(flat.shape, device=flat.device) < share)


@rule
def first(flat: torch.Tensor, count: int) -> None:
    """True at the first so many places."""
    flat.copy_(torch.arange(flat.numel(), device=flat.device) < min(count, LARGEST))


@rule
def raw(flat: torch.Tensor) -> None:
    """Any bytes, for types that hold several numbers in one."""
    flat.view(torch.uint8).random_(0, 256)


@rule
def rising(flat: torch.Tensor, high: float, row: int = 0) -> None:
    """From 0 to high in even steps, anew in each row: what is cumulated of lengths that are alike."""
    count = min(row, LARGEST) if row else flat.numel()
    place = torch.arange(flat.numel(), device=flat.device) % max(count, 1)
    whole = not flat.is_floating_point()
    steps = min(high, LARGEST) * place
    flat.copy_(steps // max(count - 1, 1) if whole else steps / max(count - 1, 1))


@rule
def starts(flat: torch.Tensor, high: int, skip: int = 0) -> None:
    """Where as many pieces of nearly one length begin below high; with one skipped, where they end."""
    place = torch.arange(flat.numel(), device=flat.device) + skip
    flat.copy_(min(high, LARGEST) * place // max(flat.numel(), 1))


@rule
def parts(flat: torch.Tensor, total: int) -> None:
    """Whole numbers that differ by 1 at most, the larger ones first, and have a sum."""
    count, total = max(flat.numel(), 1), min(total, LARGEST)
    flat.copy_(total // count + (torch.arange(flat.numel(), device=flat.device) < total % count))


@rule
def falling(flat: torch.Tensor, total: int, most: int) -> None:
    """Whole numbers that fall from the most to 1, and have a sum."""
    left = (
        min(total, LARGEST) - flat.numel() - (min(most, LARGEST) - 1) * torch.arange(flat.numel(), device=flat.device)
    )
    flat.copy_(left.clamp(0, max(min(most, LARGEST) - 1, 0)) + 1)


@rule
def counted(flat: torch.Tensor, row: int, start: int = 0) -> None:
    """Numbers from start on in steps of 1, anew in each row: a permutation, or pivots that swap nothing."""
    flat.copy_(torch.arange(flat.numel(), device=flat.device) % max(min(row, LARGEST), 1) + start)


@rule
def matrices(flat: torch.Tensor, size: int, definite: bool = False) -> None:
    """Square matrices that can be inverted; positive definite ones at request."""
    size = max(min(size, LARGEST), 1)
    many = torch.randn(flat.numel() // size**2, size, size, device=flat.device) / size
    many = (many @ many.mT if definite else many) + torch.eye(size, device=flat.device)
    flat[many.numel() :] = 0
    flat[: many.numel()].copy_(many.flatten())


def quantized(shape: Sequence[int], dtype: str, on_cpu: bool = False) -> torch.Tensor:
    """A tensor of numbers that stand for others by one scale."""
    shape = [min(size, LARGEST) for size in shape]
    values = torch.randn(shape, device="cpu" if on_cpu else DEVICE)
    return torch.quantize_per_tensor(values, 0.05, 0, getattr(torch, dtype))


def sparse_coo(shape: Sequence[int], dtype: str, entries: int, dense: int = 0, coalesced: bool = True) -> torch.Tensor:
    """A sparse tensor with so many entries, with the last so many dimensions dense."""
    shape = [min(size, LARGEST) for size in shape]
    sizes, device = shape[: len(shape) - dense], torch.device(DEVICE)
    cells = 1
    for size in sizes:
        cells *= size
    entries = min(entries, cells, LARGEST)
    at = torch.arange(entries, device=device) * max(cells // max(entries, 1), 1)
    indices = []
    for size in reversed(sizes):
        indices.append(at % max(size, 1))
        at = at // max(size, 1)
    values = torch.empty([entries, *shape[len(sizes) :]], dtype=getattr(torch, dtype), device=device)
    normal(values)
    where = torch.stack(indices[::-1]) if indices else torch.empty([0, entries], dtype=torch.int64, device=device)
    return torch.sparse_coo_tensor(where, values, shape, is_coalesced=coalesced)


def sparse_csr(shape: Sequence[int], dtype: str, layout: str, entries: int) -> torch.Tensor:
    """A sparse tensor with compressed rows or columns, of blocks of one where the layout has blocks."""
    shape = [min(size, LARGEST) for size in shape]
    rows, columns = shape[-2:] if layout in ("sparse_csr", "sparse_bsr") else shape[:-3:-1]
    batch, device = shape[:-2], torch.device(DEVICE)
    each = min(entries // max(rows, 1), columns)
    begins = (torch.arange(rows + 1, device=device) * each).expand([*batch, rows + 1]).contiguous()
    places = (torch.arange(rows * each, device=device) % max(each, 1)).expand([*batch, rows * each]).contiguous()
    blocks = [1, 1] if layout in ("sparse_bsr", "sparse_bsc") else []
    values = torch.empty([*batch, rows * each, *blocks], dtype=getattr(torch, dtype), device=device)
    normal(values)
    return torch.sparse_compressed_tensor(begins, places, values, shape, layout=getattr(torch, layout))


BETWEEN_CALLS: list[Callable[[], Any]] = []


def restored(value: torch.Tensor) -> torch.Tensor:
    """A tensor that the call writes: it gets contents, sizes and strides back between calls."""
    storage, place = value.untyped_storage(), (value.storage_offset(), value.size(), value.stride())
    contents = storage.clone()

    def restore() -> None:
        storage.resize_(contents.nbytes())
        storage.copy_(contents)
        value.set_(storage, *place)

    BETWEEN_CALLS.append(restore)
    return value


def times_us(call: Callable[[], Any], calls: int, seconds: float = math.inf) -> list[float]:
    """Microseconds of each call: between two events on the device; on a CPU by the clock, and for so long at most."""
    runtime, marks = getattr(torch, device("device").type), []

    def now() -> Any:
        if runtime is torch.cpu:
            return time.perf_counter_ns()
        event = runtime.Event(enable_timing=True)
        event.record()
        return event

    getattr(runtime, "_sleep", int)(20_000_000)  # the host gets ahead of the device, so that its launches do not count
    until = time.perf_counter() + seconds
    for _ in range(calls):
        for do in BETWEEN_CALLS:
            do()
        begin = now()
        call()
        marks.append((begin, now()))
        if runtime is torch.cpu and time.perf_counter() > until:
            break
    runtime.synchronize()
    if runtime is torch.cpu:
        return [(end - begin) / 1000 for begin, end in marks]
    return [begin.elapsed_time(end) * 1000 for begin, end in marks]


def write(file: str, save: Callable[[str], Any]) -> None:
    """Save a file whole or not at all."""
    part = os.path.join(os.path.dirname(file), ".part." + os.path.basename(file))
    save(part)
    os.replace(part, file)


def profiled(call: Callable[[], Any], trace: str = "", execution_trace: str = "") -> list[tuple[str, float]]:
    """Names and microseconds of the GPU work of one call, in order. Files get what was recorded, if they are given."""
    also = {}
    if execution_trace:
        also["execution_trace_observer"] = torch.profiler.ExecutionTraceObserver().register_callback(execution_trace)
    for do in BETWEEN_CALLS:
        do()
    with torch.profiler.profile(record_shapes=True, **also) as session:
        call()
        getattr(torch, device("device").type).synchronize()
    if trace:
        write(trace, session.export_chrome_trace)
    work = [event for event in session.events() if event.device_type != torch.autograd.DeviceType.CPU]
    return [(event.name, event.time_range.elapsed_us()) for event in sorted(work, key=lambda one: one.time_range.start)]


UNCAPPED = 1 << 40
SHRINKS: dict[str, Any] = {"type": int, "metavar": "N", "help": "shrink sizes until all tensors together take no more"}


def options(about: str | None) -> argparse.ArgumentParser:
    """What can be asked for."""
    found = [name for name in ("cuda", "xpu") if hasattr(torch, name) and getattr(torch, name).is_available()]
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", choices=["cuda", "xpu", "cpu"], default=[*found, "cpu"][0], help="cuda is that of ROCm, too")
    add("--warmup", type=int, metavar="N", help="calls before those that are timed (default: 10, on a CPU for 1 s)")
    add("--iterations", type=int, metavar="N", help="calls that are timed (default: 100, on a CPU for 2 s)")
    add("--flush-l2", action="store_true", help="empty the cache between calls")
    add("--graph", action="store_true", help="time the call as a CUDA graph")
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


def runs(asked: int | None, usual: int, seconds: float) -> tuple[int, float]:
    """How many calls, and how long on a CPU: as many as were asked for, else until the time is over."""
    return (usual, seconds) if asked is None else (max(asked, 1), math.inf)


def measure_call(call: Callable[[], Any], known: dict[str, Any], asked: Any, largest: int = UNCAPPED) -> dict[str, Any]:
    """What a call takes and does, beside what is known of it."""
    runtime, on_gpu = getattr(torch, asked.device), asked.device != "cpu"
    if asked.flush_l2:
        BETWEEN_CALLS.append(torch.empty(1 << 28, dtype=torch.int8, device=asked.device).zero_)
    times_us(call, *runs(asked.warmup, 10, 1.0))
    timed = call
    if asked.graph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        timed = graph.replay
    times = sorted(times_us(timed, *runs(asked.iterations, 100, 2.0)))
    wanted = on_gpu or asked.profile or asked.execution_trace
    work = profiled(call, asked.profile, asked.execution_trace) if wanted else []
    kernels = [name for name, _ in work]
    median = statistics.median(times)
    same = known if largest == UNCAPPED else {}
    alike = same if on_gpu == known.get("is_gpu", True) else {}  # what a GPU took says nothing of a CPU
    return {
        **{key: known[key] for key in ("op", "signature")},
        "device": runtime.get_device_name() if on_gpu else "cpu",
        "torch": torch.__version__,
        "median_us": median,
        "spread_us": [times[len(times) // 10], times[len(times) * 9 // 10]],
        "iterations": len(times),
        "tflops": same["flops"] / median / 1e6 if same.get("flops") else None,
        "tbytes_per_s": same["bytes"] / median / 1e6 if same.get("bytes") else None,
        "percent_of_roof": 100 * alike["roof_us"] / median if alike.get("roof_us") else None,
        "traced_us": known["traced_us"] or None,
        "ratio_to_traced": median / alike["traced_us"] if alike.get("traced_us") else None,
        "kernel_us": sum(us for _, us in work) if work else None,
        "kernels": kernels,
        "kernels_as_traced": kernels == known["kernels"] if on_gpu else None,
        "assumed": known["assumed"],
        "largest_size": None if same else largest,
    }


def why(error: Exception, op: str = "") -> str:
    """What an error says, in one line; the op where it is not the one that is named."""
    text = (str(error) or type(error).__name__).splitlines()[0]
    lacking = re.match(r"Could not run '(.+?)' with arguments from the '(\w+)' backend", text)
    if lacking:
        inner = f"{lacking[1]} " if lacking[1] != op else ""
        remedy = "; run it on a GPU" if lacking[2].endswith("CPU") else ""
        return f"{inner}has no {lacking[2]} kernel in this PyTorch{remedy}"
    return text if len(text) <= 300 else f"{text[:296].rpartition(' ')[0] or text[:296]} ..."


def built_tensor(told: dict[str, Any]) -> torch.Tensor:
    """A tensor from JSON."""
    told = told | {name: built(value) for name, value in told.get("options", {}).items()}
    told.pop("options", None)
    form = told.pop("layout", "strided")
    if form == "sparse_coo":
        return sparse_coo(**told)
    if form != "strided":
        return sparse_csr(layout=form, **told)
    if told["dtype"].startswith(("qint", "quint")):
        return quantized(told["shape"], told["dtype"], told.get("on_cpu", False))
    return shared(**told) if "storage" in told else tensor(**told)


BUILDERS: dict[str, Any] = {
    "tensor": built_tensor,
    "float": float,
    "complex": lambda pair: complex(*map(built, pair)),
    "dtype": dtype,
    "layout": layout,
    "memory_format": memory_format,
    "device": device,
    "generator": lambda _: generator(),
}


def built(value: Any) -> Any:
    """An argument from JSON."""
    if isinstance(value, list):
        return [built(one) for one in value]
    if isinstance(value, dict):
        return next(BUILDERS[kind](told) for kind, told in value.items())
    return value


def arguments_of(entry: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Make the arguments of an operation."""
    made = [{one["name"]: built(one.get("value")) for one in entry["plan"].get(way, [])} for way in WAYS]
    for name in entry.get("restored", []):
        for one in tensors(made[0][name]):
            restored(one)
    return list(made[0].values()), made[1]


WAYS = ("positional", "keyword")


def known_of(entry: dict[str, Any]) -> dict[str, Any]:
    """What the file says of an operation besides its arguments."""
    plan = entry["plan"]
    work, traced = plan.get("work", {}), plan.get("traced", {})
    stated = [one for way in WAYS for one in plan.get(way, []) if one.get("assumed")]
    return {
        "op": plan["op"],
        "call": f"{plan['op'].replace('::', '.')}.{plan.get('overload') or 'default'}",
        "signature": {"dims": [], "types": [], "strides": [], "values": []} | plan.get("recorded", {}),
        **{key: work.get(key) for key in ("flops", "bytes", "roof_us")},
        "traced_us": traced.get("median_us", 0.0),
        "kernels": traced.get("kernels", []),
        "imports": plan.get("imports", []),
        "modes": plan.get("modes", []),
        "assumed": [f"{one['name']}: {one['assumed']}" for one in stated],
    }


def main() -> int:
    """Measure the operations one after another; one that fails does not stop the others."""
    parser = options(__doc__)
    parser.add_argument("--cap-bytes", **SHRINKS)
    beside = Path(__file__).parent / "operations.json"
    parser.add_argument("file", nargs="?", default=beside, help="the list (default: operations.json beside this file)")
    parser.add_argument("--only", default="", metavar="TEXT", help="operations whose names hold this")
    parser.add_argument("--stop-on-error", action="store_true", help="end with the first that fails")
    parser.add_argument("-v", "--verbose", action="store_true", help="print arguments, too")
    asked, results, failed = parser.parse_args(), [], 0
    if asked.profile or asked.execution_trace:
        parser.error("a trace is of one operation; take the program of that")
    try:
        entries = [one for one in json.loads(Path(asked.file).read_text()) if asked.only in one["plan"]["op"]]
        print(f"{'median us':>9} {'traced us':>9} {'ratio':>9} {'count':>6}  operation")
        for entry in entries:
            known = known_of(entry)
            name = " ".join([known["op"], *(str(one) for one in known["signature"]["dims"] if one)])
            result: dict[str, Any] = {key: known[key] for key in ("op", "signature")} | {"count": entry.get("count", 1)}
            try:
                result |= measure(known, partial(arguments_of, entry), asked)
                cells = [result["median_us"], result["traced_us"] or None, result["ratio_to_traced"]]
                told = [" " * 9 if cell is None else f"{cell:9.2f}" for cell in cells]
                print(*told, f"{result['count']:6}", "", ascii(name)[1:-1], flush=True)
            except Exception as error:
                failed += 1
                result["error"] = why(error, known["op"])
                print(f"{ascii(name)[1:-1]}: {result['error']}", file=sys.stderr)
            results.append(result)
            if asked.verbose:
                print(json.dumps(entry["plan"], indent=1))
            if failed and asked.stop_on_error:
                break
        print(f"{len(results) - failed} of {len(entries)} operations ran")
        if asked.json:
            write(asked.json, lambda part: Path(part).write_text(json.dumps(results, indent=1)))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"{asked.file}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
