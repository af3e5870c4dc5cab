"""What `diff` costs on top of loading its two traces: building both forests, aligning them, and finding the points.

All in one process and in processor time, so that a busy machine gives nearly the same as a quiet one. The bar
is 1.2 times both loads.

    .venv/bin/python benchmarks/alignment.py --tiles 1 9 25 --runs 3
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

from measure import printed
from run import CORPUS

from tile import tile

PAIR = ("tracelens/h100/qwen1.5-0.5b.json.gz", "tracelens/mi300/qwen1.5-0.5b.json.gz")
BAR = 1.2

MEASURED = """
import json, resource, sys, time
from tracelens_graph.analyses.alignment.align import align
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.one import load_core

found = []
for _ in range(1 + int(sys.argv[3])):
    start = time.process_time()
    graphs = [load_core(path) for path in sys.argv[1:3]]
    loaded = time.process_time()
    aligned = align(*map(window_of, graphs))
    end = time.process_time()
    found.append((loaded - start, end - loaded))
leaves = [side.leaves for side in aligned.sides]
memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"times": found[1:], "leaves": leaves, "events": [len(graph.columns) for graph in graphs],
    "memory": memory}))
"""


def main() -> None:
    """Measure, and print a line per size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiles", type=int, nargs="+", default=[1, 9, 25], metavar="N")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print("copies  events            leaves           both loads  on top  ratio   bar  memory")
    with tempfile.TemporaryDirectory() as folder:
        for copies in options.tiles:
            files = []
            for side, name in enumerate(PAIR):
                files.append(Path(folder) / f"{side}-{copies}.json")
                with files[-1].open("wb") as target:
                    tile(CORPUS / name, target, copies)
            result = printed(MEASURED, *map(str, files), str(options.runs))
            load, top = (median(times) for times in zip(*result["times"], strict=True))
            ratio = median(on_top / loads for loads, on_top in result["times"])
            verdict = "met" if ratio <= BAR else "MISSED"
            print(
                f"{copies:6}  {result['events']!s:16}  {result['leaves']!s:15}  {load:8.3f} s  {top:4.3f} s"
                f"  {ratio:5.2f}  {BAR:4.2f}  {result['memory'] / 1e6:.0f} MB  {verdict}"
            )
            for file in files:
                file.unlink()


if __name__ == "__main__":
    main()
