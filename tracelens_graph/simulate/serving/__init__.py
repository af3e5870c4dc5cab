"""Simulated servers of language models whose truth is known.

`simulate` lets a server answer requests, in the manner of vLLM or SGLang: prompts run op by op, decode steps as replays
of graphs that were captured once per batch size. It gives the trace of the running server, the traces of the captures,
and the truth about both. The same arguments give the same bytes.

    from tracelens_graph.simulate.serving import simulate, write
    run = simulate(steps=60, engine="sglang", platform="rocm")
    write(run, "folder")
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelens_graph.simulate import options as training
from tracelens_graph.simulate.emit import Writer, write_trace
from tracelens_graph.simulate.host import Process
from tracelens_graph.simulate.job import Devices, drive
from tracelens_graph.simulate.places import START_NS, Place, places
from tracelens_graph.simulate.serving.options import Options
from tracelens_graph.simulate.serving.server import Capture, Graph, Server, capture_file
from tracelens_graph.simulate.serving.truth import truth_of_server
from tracelens_graph.utils.gc_pause import garbage_collection_paused

__all__ = ["Options", "RankTrace", "Run", "simulate", "write"]

CAPTURE_LEAD_NS = 180_000_000_000
"""How long before the recording the graphs were captured."""


@dataclass(frozen=True, slots=True)
class RankTrace:
    """What one server left: its trace, those of its captures by file name, and the truth about all of them."""

    rank: int
    trace: dict[str, Any]
    captures: dict[str, dict[str, Any]]
    details: list[dict[str, Any]]
    """The entries of `execution_details.json` for its captures."""
    truth: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """Simulated servers."""

    options: Options
    ranks: list[RankTrace]


@garbage_collection_paused()
def simulate(steps: int = 40, layers: int = 4, seed: int = 0, **settings: Any) -> Run:
    """Simulate servers.

    `settings` are the other fields of `Options`. Raises ValueError for a value that makes no sense, TypeError for an
    unknown setting.
    """
    options = Options(steps=steps, layers=layers, seed=seed, **settings)
    base = training.Options(
        ranks=options.ranks, layers=layers, seed=seed, width=options.width, heads=options.heads,
        memory=False, python_stacks=options.python_stacks,
    )  # fmt: skip
    return Run(options, [_rank(options, base, place) for place in places(base)])


def _rank(options: Options, base: training.Options, place: Place) -> RankTrace:
    graphs: dict[int, list[Graph]] = {}
    captures, details = {}, []
    for size in options.sizes if options.capture != "none" else ():
        file = capture_file(options, place.rank, size)
        capture = Capture(_process(options, base, place, f"capture-{size}"), options, size, file)
        drive([capture.run()], Devices([capture.process]))
        graphs[size], captures[file] = capture.graphs, Writer(capture.process).write()
        details.append({"file": file, "batch_size": size, "mode": capture.mode})
    server = Server(_process(options, base, place, ""), options, graphs)
    drive([server.run()], Devices([server.process]))
    work = list(server.process.gpus)
    _lose(server.process, options)
    trace = Writer(server.process).write()
    return RankTrace(place.rank, trace, captures, details, truth_of_server(server, options, graphs, work))


def _process(options: Options, base: training.Options, place: Place, name: str) -> Process:
    process = Process(place, base, START_NS - CAPTURE_LEAD_NS * bool(name), {})
    process.name += name and f"-{name}"
    process.is_rocm = options.platform == "rocm"
    return process


def _lose(process: Process, options: Options) -> None:
    """Take some replayed kernels out of the trace."""
    rng = random.Random(f"{options.seed}/{process.rank}/lost")
    for gpu in process.gpus:
        gpu.hidden = gpu.captured is not None and rng.random() < options.lost
    process.gpus = [gpu for gpu in process.gpus if not gpu.hidden]


def write(run: Run, folder: str | os.PathLike[str], *, traces_only: bool = False) -> list[Path]:
    """Write `rank<n>.json.gz`, `rank<n>.truth.json` and the folder `capture` with the captures of all ranks.

    `traces_only` leaves the truth out. Gives the paths of the servers' traces. Makes the folder; OSError if it cannot
    be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank in run.ranks:
        files.append(folder / f"rank{rank.rank}.json.gz")
        write_trace(files[-1], rank.trace)
        if not traces_only:
            files[-1].with_name(f"rank{rank.rank}.truth.json").write_text(json.dumps(rank.truth))
        for name, trace in rank.captures.items():
            (folder / "capture").mkdir(exist_ok=True)
            write_trace(folder / "capture" / name, trace)
    details = [entry for rank in run.ranks for entry in rank.details]
    if details and run.options.details:
        (folder / "capture" / "execution_details.json").write_text(json.dumps(details, indent=2))
    return files
