"""How long an execution trace takes to read, and to become a graph, beside `orjson.loads` of the same bytes.

Copies of a real execution trace stand one behind the other: their ids are moved, and their calls stay as they are.

    python benchmarks/execution_trace.py                       the example of this repository
    python benchmarks/execution_trace.py ET.json.gz --nodes 120000
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from tracelens_graph.loaders.execution_trace.graph import execution_graph
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.sources import open_source

EXAMPLE = Path(__file__).parents[1] / "examples/traces/tiny-transformer-cpu.execution-trace.json.gz"
_REFERENCES = ("id", "ctrl_deps", "parent", "fw_parent", "rf_id")


def tiled(trace: dict[str, Any], nodes: int) -> dict[str, Any]:
    """The trace with at least so many nodes: copies below the one process, each with ids of its own."""
    process = [node for node in trace["nodes"] if node["id"] == 1]
    others = [node for node in trace["nodes"] if node["id"] != 1]
    step = max(node["id"] for node in others)
    copies = -(-nodes // len(others))
    moved = [_moved(node, copy * step) for copy in range(copies) for node in others]
    return {**trace, "nodes": moved + process}


def _moved(node: dict[str, Any], by: int) -> dict[str, Any]:
    def far(key: str, value: Any) -> Any:
        return value + by if key in _REFERENCES and value > (key != "rf_id") else value

    moved = {key: far(key, value) for key, value in node.items()}
    if "attrs" in node:
        moved["attrs"] = [{**one, "value": far(one["name"], one["value"])} for one in node["attrs"]]
    return moved


def seconds(work: Callable[[], object], runs: int) -> float:
    """Median time of a piece of work."""
    times = []
    for _ in range(runs):
        gc.collect()
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return median(times)


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="?", default=EXAMPLE)
    parser.add_argument("--nodes", type=int, default=120_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with open_source(given.trace).open() as stream:
        text = orjson.dumps(tiled(orjson.loads(stream.read()), given.nodes))
    source = open_source(text)
    execution = load_execution_trace(source)
    print(f"{len(execution):,} nodes, {len(text) / 1e6:.0f} MB")
    print(f"orjson.loads          {seconds(lambda: orjson.loads(text), given.runs):.3f} s")
    print(f"columns               {seconds(lambda: load_execution_trace(source), given.runs):.3f} s")
    print(f"graph of the columns  {seconds(lambda: execution_graph(execution, source), given.runs):.3f} s")


if __name__ == "__main__":
    main()
