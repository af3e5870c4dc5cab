"""How much CPU time joining a server's replays with their captures takes, beside loading the server's trace.

A simulated server replays one captured graph; copies of its trace stand one behind the other. Without names of kernels
in the captures (`--platform nvidia`) calls and kernels are joined by other facts; with lost kernels replays differ.

    python benchmarks/captures.py --replays 1000 --kernels 1500
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from tile import tile
from tracelens_graph import load
from tracelens_graph.simulate.serving import simulate, write

SIMULATED = 50
"""Replays that are simulated; the rest are copies of them."""


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--kernels", type=int, default=1500)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    for platform in ("rocm", "nvidia"):
        for lost in (0.0, 0.01):
            with tempfile.TemporaryDirectory() as folder:
                trace = _server(Path(folder), platform, lost, given)
                captures = trace.with_name("capture")
                alone = cpu_seconds(partial(load, trace), given.runs)
                joined = cpu_seconds(partial(load, trace, capture=captures), given.runs)
                size = trace.stat().st_size / 1e6
            print(
                f"{platform:6}  {lost:4.0%} lost  {size:.0f} MB: load {alone:.2f} s, with its captures {joined:.2f} s; "
                f"the join takes {(joined - alone) / alone:.2f} of the load"
            )


def cpu_seconds(work: Callable[[], object], runs: int) -> float:
    """Median CPU time of a piece of work, that of its second process included."""
    times = []
    for _ in range(runs):
        gc.collect()
        begin = os.times()
        work()
        end = os.times()
        times.append(sum(end[:4]) - sum(begin[:4]))
    return median(times)


def _server(folder: Path, platform: str, lost: float, given: argparse.Namespace) -> Path:
    """The trace of a server with that many replays of graphs of that many kernels; its captures stand beside it."""
    layers = max(1, round(given.kernels / 15))
    steps = min(SIMULATED, given.replays)
    run = simulate(
        steps, layers, platform=platform, lost=lost, sizes=(16,), requests=16, arrivals=0, output=10 * steps, width=256
    )  # fmt: skip
    source = write(run, folder, traces_only=True)[0]
    trace = folder / "tiled.json"
    with trace.open("wb") as target:
        tile(source, target, given.replays // steps)
    return trace


if __name__ == "__main__":
    main()
