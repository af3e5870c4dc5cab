"""How loading the ranks of a job grows with their number, in processes and on a Dask cluster of this machine.

Ranks are simulated and small, so that 512 of them fit anywhere. For each number of ranks: seconds and peak memory of a
lean load in processes, beside what it may take: the columns that are kept, and for each process and the one that holds
them as much as the largest load takes alone. Then the seconds that two Dask workers take, and those of a question.

    python benchmarks/ranks.py                            8, 64 and 512 ranks
    python benchmarks/ranks.py --folder traces/ --ranks 64   ranks of yours
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import peak_pss, printed

from tracelens_graph.analyses.questions import QUESTIONS

COLUMNS = sorted(QUESTIONS["rank_balance"].columns or ())
MB = 1e6

ALONE = """
import json, sys, time
from tracelens_graph.loading.one import load_core
started = time.perf_counter()
core = load_core(sys.argv[1], processes=1).lean(sys.argv[2].split(","))
print(json.dumps({"s": time.perf_counter() - started, "columns": core.columns.nbytes}))
"""

SET = """
import json, sys, time
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.loading.many import load_core_set

files, columns, processes, scheduler = json.loads(sys.argv[1])
started = time.perf_counter()
traces = load_core_set(files, columns=columns, processes=processes, scheduler=scheduler)
loaded = time.perf_counter()
rows = len(QUESTIONS["rank_balance"](traces))
assert rows in (0, len(files)), rows
print(json.dumps({
    "s": loaded - started,
    "question_s": time.perf_counter() - loaded,
    "columns": sum(one.core.columns.nbytes for one in traces),
}))
"""


def simulated(folder: Path, ranks: int) -> list[str]:
    """Traces of a small job, without its truth, which would take most of the time."""
    from tracelens_graph.simulate import Options
    from tracelens_graph.simulate.emit import Writer
    from tracelens_graph.simulate.job import run_job

    options = Options(ranks=ranks, steps=2, layers=1, tokens=64, python_stacks=False, shapes=False, memory=False)
    files = []
    for rank, process in enumerate(run_job(options)):
        files.append(str(folder / f"rank{rank}.json.gz"))
        Path(files[-1]).write_bytes(gzip.compress(json.dumps(Writer(process).write()).encode(), 1))
    return files


def measured(files: Sequence[str], processes: int) -> dict[str, float]:
    """Seconds and bytes of loading some ranks in processes."""
    call = json.dumps([list(files), COLUMNS, processes, None])
    largest = max(files, key=os.path.getsize)
    alone = printed(ALONE, largest, ",".join(COLUMNS))
    found: dict[str, float] = printed(SET, call)
    one = peak_pss([sys.executable, "-c", ALONE, largest, ",".join(COLUMNS)])
    return found | {
        "alone_s": alone["s"],
        "peak": peak_pss([sys.executable, "-c", SET, call]),
        "allowed": (processes + 1) * one + found["columns"],
    }


def on_workers(files: Sequence[str], workers: int) -> float:
    """Seconds of loading them by Dask workers that are there already."""
    os.environ["DASK_LOGGING__DISTRIBUTED"] = "critical"  # workers print tracebacks when they are closed
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster:
        call = json.dumps([list(files), COLUMNS, None, cluster.scheduler_address])
        return float(printed(SET, call)["s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 512], help="numbers of ranks to measure")
    parser.add_argument("--processes", type=int, default=2, help="processes, and Dask workers")
    parser.add_argument("--folder", type=Path, help="traces to take instead of simulated ones")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracelens_graph-bench-") as made:
        if options.folder is None:
            files = simulated(Path(made), max(options.ranks))
        else:
            files = sorted(map(str, options.folder.iterdir()))
        print("ranks   load s  ms/rank  of one alone   peak MB  allowed  columns MB   Dask s   question s")
        for ranks in sorted(options.ranks):
            print(row(ranks, measured(files[:ranks], options.processes), on_workers(files[:ranks], options.processes)))


def row(ranks: int, found: dict[str, Any], dask_s: float) -> str:
    """A line of the table."""
    return (
        f"{ranks:5}  {found['s']:7.2f}  {1e3 * found['s'] / ranks:7.1f}  {1e3 * found['alone_s']:9.1f} ms  "
        f"{found['peak'] / MB:8.0f}  {found['allowed'] / MB:7.0f}  {found['columns'] / MB:10.1f}  {dask_s:7.2f}  "
        f"{found['question_s']:11.2f}"
    )


if __name__ == "__main__":
    main()
