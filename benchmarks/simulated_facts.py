"""Facts of many runs, made of those of one trace: kernels scatter, and from a build on some of them take longer.

python benchmarks/simulated_facts.py TRACE --runs 2000    push them into the database of NEO4J_URI, and time questions
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.db.database import connect, image
from tracelens_graph.db.image import Edges, Options, Placement, TraceImage
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema.facts import KERNELS

TIMES = ("ns", "min_ns", "median_ns", "max_ns", "own_ns", "exposed_ns")


def facts_of_runs(
    base: TraceImage, runs: int, slower: Collection[str], since: int, factor: float, noise: float = 0.03, seed: int = 0
) -> Iterator[TraceImage]:
    """Images of runs `run-0`, `run-1` and so on, each with the label `build`, its number.

    Args:
        base: the facts of a trace.
        runs: how many.
        slower: keys of the kernel names that take longer, and with them what they run for.
        since: the first run in which they do.
        factor: how much longer.
        noise: standard deviation of the logarithms of times between runs.
        seed: of the scatter.
    """
    draw = np.random.default_rng(seed)
    slow = {*slower, *_run_for(base, slower)}
    for number in range(runs):
        trace = f"{number:032x}"
        placed = {"id": trace, "name": "rank0", "run": f"run-{number}", "path": f"run-{number}/rank0"}
        nodes = [
            replace(one, columns=([f"run-{number}"], *one.columns[1:])) if one.labels == ("Run",) else one
            for one in base.nodes
        ]
        scatter = {
            key: float(value) for key, value in zip(_keys(base), np.exp(draw.normal(0, noise, 10**4)), strict=False)
        }
        times = {key: one * (factor if number >= since and key in slow else 1) for key, one in scatter.items()}
        edges = [_of_run(one, base.properties["id"], trace, f"run-{number}", times) for one in base.edges]
        yield TraceImage(properties={**base.properties, **placed, "label_build": number}, nodes=nodes, edges=edges)


def _keys(base: TraceImage) -> list[str]:
    return sorted({key for edges in base.edges if edges.type == "SPENT" for key in edges.columns[1]})


def _run_for(base: TraceImage, kernels: Collection[str]) -> set[str]:
    """Keys of what kernels run for."""
    spent = (
        (edges.columns[1], edges.columns[2 + edges.properties.index(KERNELS)])
        for edges in base.edges
        if edges.type == "SPENT"
    )
    return {key for keys, ran in spent for key, names in zip(keys, ran, strict=True) if set(names or ()) & set(kernels)}


def _of_run(edges: Edges, old: str, trace: str, run: str, times: dict[str, float]) -> Edges:
    sources, targets, *columns = (list(column) for column in edges.columns)
    if edges.type == "SPENT":
        for place, prop in enumerate(edges.properties):
            if prop.name in TIMES:
                columns[place] = [
                    None if ns is None else round(ns * times[key])
                    for ns, key in zip(columns[place], targets, strict=True)
                ]
    ends: Any = [[trace if key == old else key for key in side] for side in (sources, targets)]
    if edges.type == "OF_RUN":
        ends[1] = [run]
    return replace(edges, columns=(*ends, *columns))


def main() -> None:
    """Push, ask, print seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--ask-only", action="store_true")
    given = parser.parse_args()
    base = image(load_core(given.trace), Placement("base", "base"), Options(kinds=()))
    names = next(nodes for nodes in base.nodes if nodes.labels == ("KernelName",))
    slower = names.columns[0][3:8]
    with connect() as db:
        if not given.ask_only:
            begin = time.perf_counter()
            with ThreadPoolExecutor(2) as pool:
                runs = facts_of_runs(base, given.runs, slower, given.runs // 2, 1.3)
                for _ in pool.map(db.push_image, runs):
                    pass
            print(f"{given.runs:,} runs pushed in {time.perf_counter() - begin:.1f} s")
        print("{:,} nodes, {:,} edges".format(*db.size()))
        for question, asked in (("regressions", {"label": "build"}), ("run_history", {}), ("findings_across", {})):
            took = []
            for _ in range(3):
                begin = time.perf_counter()
                rows = len(db.ask(question, **asked))
                took.append(time.perf_counter() - begin)
            print(f"{question}: {rows} rows, {min(took):.2f} s")


if __name__ == "__main__":
    main()
