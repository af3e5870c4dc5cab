"""The program of operations of a trace, each of them called by itself."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tracelens_graph.replay.program.measure import (
    UNCAPPED,
    arguments,
    bytes_of,
    called,
    check_fits,
    known_of,
    measure_call,
    options,
)
from tracelens_graph.replay.program.report import ended, parsed, show, why, write_results
from tracelens_graph.replay.program.values import build_on, entered

PLAN: Any = []

# What stands below goes into programs.


def measured(plan: dict[str, Any], asked: argparse.Namespace) -> dict[str, Any]:
    """What a call of an operation takes and does, beside what was traced."""
    make, largest = partial(arguments, plan), UNCAPPED
    if asked.cap_bytes is None:
        check_fits(make, asked.device)
    else:
        while largest > 1 and bytes_of(make, largest) > asked.cap_bytes:
            largest //= 2
    build_on(asked.device, largest)
    positional, keyword = make()
    positional = [[min(n, largest) if type(n) is int else n for n in a] if type(a) is list else a for a in positional]
    with entered(plan.get("modes", [])):
        return measure_call(called(plan, positional, keyword), known_of(plan), asked, largest)


def listed(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """The plans, those of a file if one is named."""
    plans, given = [], json.loads(Path(asked.file).read_text()) if asked.file else PLAN
    for entry in given if isinstance(given, list) else [given]:
        plan = entry.get("plan", entry)
        traced = {"calls": entry.get("count", 1)} | plan.get("traced", {})
        plans.append({"restored": entry.get("restored", [])} | plan | {"traced": traced})
    return [plan for plan in plans if asked.only in plan["op"]]


def row(result: dict[str, Any]) -> None:
    """Print a result as a row of a table."""
    figures = [result["median_us"], result["traced_us"] or None, result["ratio_to_traced"]]
    cells = [" " * 9 if cell is None else f"{cell:9.2f}" for cell in figures]
    name = " ".join([result["op"], *(str(one) for one in result["signature"]["dims"] if one)])
    print(*cells, f"{result['count']:6}", "", ascii(name)[1:-1], flush=True)


def main() -> int:
    """Measure the operations one after another; one that fails does not stop the others."""
    parser = options(__doc__)
    add = parser.add_argument
    add("--cap-bytes", type=int, metavar="N", help="shrink sizes until all tensors together take no more")
    add("--only", default="", metavar="TEXT", help="operations whose names hold this")
    add("--stop-on-error", action="store_true", help="end with the first that fails")
    add("-v", "--verbose", action="store_true", help="print plans, too")
    add("file", nargs="?", metavar="PLANS", help="JSON file with a list of plans, in place of those of this program")
    asked = parsed(parser)
    return ended(lambda: run(asked, parser), asked.file or parser.prog, asked)


def run(asked: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Measure what was asked for; the exit code says whether all of it ran."""
    plans, results, failed = listed(asked), [], 0
    if len(plans) != 1 and (asked.profile or asked.execution_trace):
        parser.error("a trace is of one operation: choose it with --only")
    if len(plans) != 1:
        print(f"{'median us':>9} {'traced us':>9} {'ratio':>9} {'count':>6}  operation")
    for plan in plans:
        result = {key: known_of(plan)[key] for key in ("op", "signature", "count")}
        try:
            result |= measured(plan, asked)
            (show if len(plans) == 1 else row)(result)
        except Exception as error:
            failed += 1
            result["error"] = why(error, plan["op"])
            print(f"{ascii(plan['op'])[1:-1]}: {result['error']}", file=sys.stderr)
        results.append(result)
        if asked.verbose:
            print(json.dumps(plan, indent=1))
        if failed and asked.stop_on_error:
            break
    if len(plans) != 1:
        print(f"{len(results) - failed} of {len(plans)} operations ran")
    write_results(asked.json, results)
    return 1 if failed else 0
