"""How long the queries of the library take, warm, on graphs of some 200,000 nodes: two ranks of a simulated run.

    NEO4J_URI=bolt://127.0.0.1:7687 NEO4J_PASSWORD=... python benchmarks/queries.py [STEPS]

The traces are pushed into that database as the run `benchmark-queries`, and dropped at the end.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tracelens_graph.cypher import library
from tracelens_graph.db.database import Database, connect
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate, write

RUN = "benchmark-queries"
STEPS = 150
BAR_S = 2.0
"""Each is to answer within that, once it has been asked before."""


def push(database: Database, steps: int) -> list[str]:
    """Paths of the two traces."""
    with tempfile.TemporaryDirectory() as folder:
        write(simulate(ranks=2, steps=steps, seed=11), folder)
        for file in sorted(Path(folder).glob("rank*.json.gz")):
            core = load_core(str(file))
            database.push(core, run=RUN)
            print(f"{RUN}/{file.name.partition('.')[0]}: {len(core.columns):,} nodes")
    return [f"{RUN}/rank{rank}" for rank in range(2)]


def measure(database: Database, paths: list[str], runs: int = 3) -> dict[str, float]:
    """Seconds per query, the median of some runs after a first one."""
    seconds = {}
    for query in library().values():
        given = {"trace": paths[0], "a": paths[0], "b": paths[1], "run": RUN}
        given = {name: value for name, value in given.items() if name in query.defaults}
        database.ask(query.name, timeout_s=600, **given)
        took = []
        for _ in range(runs):
            start = time.perf_counter()
            database.ask(query.name, timeout_s=600, **given)
            took.append(time.perf_counter() - start)
        seconds[query.name] = median(took)
    return seconds


def main() -> None:
    with connect() as database:
        paths = push(database, int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
        for name, seconds in sorted(measure(database, paths).items(), key=lambda one: -one[1]):
            print(f"{name:26s} {seconds:8.3f} s{'   beyond the bar' if seconds > BAR_S else ''}")
        database.drop(RUN)


if __name__ == "__main__":
    main()
