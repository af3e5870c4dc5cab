"""The program of a list of operations, which a file beside it holds."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tracelens_graph.replay.program.measure import SHRINKS, measure, options, tensors, why
from tracelens_graph.replay.program.timing import restored, write
from tracelens_graph.replay.program.values import (
    device,
    dtype,
    generator,
    layout,
    memory_format,
    quantized,
    shared,
    sparse_coo,
    sparse_csr,
    tensor,
)


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
