"""The program of one instruction of XLA, computed again by JAX."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax

PLAN: dict[str, Any] = {}

# What stands below goes into programs.


def operand(number: int, facts: dict[str, Any]) -> Any:
    """An array of the shape and type: normal numbers, small whole ones, or truth values."""
    key, shape, kind = jax.random.key(number), tuple(facts["dims"]), jax.numpy.dtype(facts["dtype"])
    if facts["dtype"] == "bool":
        return jax.random.bernoulli(key, shape=shape)
    if jax.numpy.issubdtype(kind, jax.numpy.integer):
        return jax.random.randint(key, shape, 0, 9).astype(kind)
    return jax.random.normal(key, shape).astype(kind)


def compute(*operands: Any) -> Any:
    """The instruction."""
    opcode, how, made = PLAN["opcode"], PLAN["how"], PLAN["result"]
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
    return getattr(lax, PLAN["function"])(*operands)


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """Compile the instruction, run it, and tell its time.

    Raises:
        ValueError: it gives another shape or type than was traced.
    """
    made = PLAN["result"]
    if any(facts["dtype"] in ("float64", "int64", "uint64", "complex128") for facts in [*PLAN["operands"], made]):
        jax.config.update("jax_enable_x64", True)
    device = jax.devices(asked.device)[0]
    with jax.default_device(device):
        operands = [operand(number, facts) for number, facts in enumerate(PLAN["operands"])]
        compiled = jax.jit(compute).lower(*operands).compile()
    found = jax.block_until_ready(compiled(*operands))
    if (list(found.shape), found.dtype.name) != (made["dims"], made["dtype"]):
        raise ValueError(f"gives {found.dtype.name}{list(found.shape)}, which is not what was traced")
    times: list[float] = []
    with jax.profiler.trace(asked.profile) if asked.profile else nullcontext():
        for _ in range(max(asked.warmup, 0) + max(asked.iterations, 1)):
            begin = time.perf_counter_ns()
            jax.block_until_ready(compiled(*operands))
            times.append((time.perf_counter_ns() - begin) / 1000)
    times = sorted(times[max(asked.warmup, 0) :])
    median = statistics.median(times)
    return {
        **{key: PLAN[key] for key in ("op", "signature", "count", "percent", "total_us", "trace")},
        "device": device.device_kind,
        "library": f"jax {jax.__version__}", "median_us": median,
        "spread_us": [times[len(times) // 10], times[len(times) * 9 // 10]], "iterations": len(times),
        "tflops": PLAN["flops"] / median / 1e6 if PLAN["flops"] else None, "traced_us": PLAN["traced_us"],
        "shape": list(found.shape), "dtype": found.dtype.name,
    }  # fmt: skip


def main() -> int:
    """Measure the instruction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", metavar="PLATFORM", help="where, such as cpu, gpu or tpu (default: JAX's own)")
    add("--warmup", type=int, default=10, metavar="N", help="calls before those that are timed (default: 10)")
    add("--iterations", type=int, default=50, metavar="N", help="calls that are timed (default: 50)")
    add("--json", metavar="FILE", help="write results")
    add("--profile", default="", metavar="DIR", help="write the profiler's trace of all calls")
    asked = parser.parse_args()
    try:
        result = measured(asked)
        low, high = result["spread_us"]
        calls = result["iterations"]
        print(f"{result['op']}: median {result['median_us']:,.2f} us of {calls} calls, on the host's clock")
        print(f"  spread: {low:,.2f} to {high:,.2f} us in 80 % of the calls")
        print(f"  makes {result['dtype']}{result['shape']} on {result['device']}")
        if result["traced_us"]:
            print(f"  traced: {result['traced_us']:,.2f} us of GPU time")
        if asked.json:
            Path(asked.json).write_text(json.dumps([result], indent=1))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"{PLAN['op']}: {str(error).splitlines()[0] if str(error) else error!r}", file=sys.stderr)
        return 1
    return 0
