"""The program of instructions of XLA, each computed again by JAX."""

from __future__ import annotations

import argparse
import math
import sys
import time
from contextlib import nullcontext
from typing import Any

import jax

from tracelens_graph.replay.program.report import ended, parsed, quartiles, say, show, why, write_results

PLAN: list[dict[str, Any]] = []

# What stands below goes into programs.


def operand(number: int, facts: dict[str, Any]) -> Any:
    """An array of the shape and type: normal numbers, small whole ones, or truth values."""
    key, shape, kind = jax.random.key(number), tuple(facts["dims"]), jax.numpy.dtype(facts["dtype"])
    if facts["dtype"] == "bool":
        return jax.random.bernoulli(key, shape=shape)
    if jax.numpy.issubdtype(kind, jax.numpy.integer):
        return jax.random.randint(key, shape, 0, 9).astype(kind)
    return jax.random.normal(key, shape).astype(kind)


def compute(plan: dict[str, Any], *operands: Any) -> Any:
    """The instruction."""
    opcode, how, made = plan["opcode"], plan["how"], plan["result"]
    kind, lax = jax.numpy.dtype(made["dtype"]), jax.lax
    if opcode == "dot":
        left, right, *batch = how["dims"]
        accumulate = kind if kind.itemsize >= operands[0].dtype.itemsize else None
        found = lax.dot_general(*operands, ((left, right), batch), preferred_element_type=accumulate)
        return found.astype(kind)
    if opcode == "convolution":
        return lax.conv_general_dilated(
            *operands, how["stride"], how["pad"], *how["dilate"],
            lax.ConvDimensionNumbers(*(tuple(dims) for dims in how["dims"])), *how["groups"],
        ).astype(kind)  # fmt: skip
    if opcode == "reduce":
        return getattr(jax.numpy, how["by"])(operands[0], axis=tuple(how["dims"])).astype(kind)
    if opcode == "broadcast":
        return lax.broadcast_in_dim(operands[0], made["dims"], how["dims"])
    if opcode == "transpose":
        return lax.transpose(operands[0], how["dims"])
    if opcode == "reverse":
        return lax.rev(operands[0], how["dims"])
    if opcode == "concatenate":
        return lax.concatenate(operands, how["dims"][0])
    if opcode == "convert":
        return operands[0].astype(kind)
    if opcode == "copy":
        return jax.numpy.copy(operands[0])
    return getattr(lax, plan["function"])(*operands)


def shrunk(plan: dict[str, Any], most: int) -> tuple[dict[str, Any], int | None]:
    """The plan with no size above the largest with which its arrays take at most that many bytes, and that size."""
    largest = 1 << 40
    while largest > 1:
        arrays = [{**one, "dims": [min(size, largest) for size in one["dims"]]} for one in plan["operands"]]
        made = {**plan["result"], "dims": [min(size, largest) for size in plan["result"]["dims"]]}
        if sum(math.prod(one["dims"]) * jax.numpy.dtype(one["dtype"]).itemsize for one in [*arrays, made]) <= most:
            break
        largest //= 2
    return ({**plan, "operands": arrays, "result": made}, largest) if largest < 1 << 40 else (plan, None)


def measured(plan: dict[str, Any], asked: argparse.Namespace) -> dict[str, Any]:
    """Compile the instruction and measure it.

    Raises:
        ValueError: it gives another shape or type than was traced.
    """
    plan, largest = (plan, None) if asked.cap_bytes is None else shrunk(plan, asked.cap_bytes)
    made, traced = plan["result"], plan["traced"]
    if any(facts["dtype"] in ("float64", "int64", "uint64", "complex128") for facts in [*plan["operands"], made]):
        jax.config.update("jax_enable_x64", True)
    device = jax.devices(asked.device)[0]
    with jax.default_device(device):
        operands = [operand(number, facts) for number, facts in enumerate(plan["operands"])]
        compiled = jax.jit(lambda *given: compute(plan, *given)).lower(*operands).compile()
        cache = jax.numpy.zeros(asked.flush_l2 << 28, "int8")
    found = jax.block_until_ready(compiled(*operands))
    if (list(found.shape), found.dtype.name) != (made["dims"], made["dtype"]):
        raise ValueError(f"gives {found.dtype.name}{list(found.shape)}, which is not what was traced")
    times: list[float] = []
    with jax.profiler.trace(asked.profile) if asked.profile else nullcontext():
        for _ in range(max(asked.warmup, 0) + asked.iterations):
            cache = jax.block_until_ready(cache + 1)  # as large as the cache of a device, where that is asked for
            begin = time.perf_counter_ns()
            jax.block_until_ready(compiled(*operands))
            times.append((time.perf_counter_ns() - begin) / 1000)
    times = times[max(asked.warmup, 0) :]
    low, median, high = quartiles(times)
    work = {} if largest else plan["work"]
    return {
        **known_of(plan), "percent": traced.get("percent"), "traced_us": traced.get("median_us"),
        "total_us": traced.get("total_us"), "trace": traced.get("trace", ""), "median_us": median,
        "spread_us": [low, high], "iterations": len(times),
        "tflops": work["flops"] / median / 1e6 if work.get("flops") else None,
        "tbytes_per_s": work["bytes"] / median / 1e6 if work.get("bytes") else None, "device": device.device_kind,
        "driver": "", "library": f"jax {jax.__version__}", "torch": "", "settings": {}, "assumed": plan["assumed"],
        "largest_size": largest, "shape": list(found.shape), "dtype": found.dtype.name,
    }  # fmt: skip


def known_of(plan: dict[str, Any]) -> dict[str, Any]:
    """What a plan says of an instruction besides its operands."""
    return {"op": plan["op"], "signature": plan["signature"], "count": plan["traced"].get("calls", 1)}


def main() -> int:
    """Measure the instructions one after another; one that fails does not stop the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", metavar="PLATFORM", help="where, such as cpu, gpu or tpu (default: JAX's own)")
    add("--warmup", type=int, default=10, metavar="N", help="calls before those that are timed (default: 10)")
    add("--iterations", type=int, default=50, metavar="N", help="calls that are timed (default: 50)")
    add("--flush-l2", action="store_true", help="empty the cache between calls")
    add("--graph", action="store_true", help=argparse.SUPPRESS)
    add("--cap-bytes", type=int, metavar="N", help="shrink sizes until all arrays together take no more")
    add("--json", nargs="?", const="-", metavar="FILE", help="write results; without a name to standard output")
    add("--profile", default="", metavar="DIR", help="write the profiler's trace of all calls")
    asked = parsed(parser)
    if asked.graph:
        parser.error("--graph: XLA makes graphs itself; XLA_FLAGS=--xla_gpu_enable_command_buffer=... says of what")
    return ended(lambda: run(asked), parser.prog, asked)


def run(asked: argparse.Namespace) -> int:
    """Measure what was asked for; the exit code says whether all of it ran."""
    results: list[dict[str, Any]] = []
    for plan in PLAN:
        try:
            results.append(measured(plan, asked))
            show(results[-1])
            say("makes", f"{results[-1]['dtype']}{results[-1]['shape']}; times are by the host's clock")
        except Exception as error:
            results.append({**known_of(plan), "error": why(error)})
            print(f"{plan['op']}: {why(error)}", file=sys.stderr)
    write_results(asked.json, results)
    return int(any("error" in one for one in results))
