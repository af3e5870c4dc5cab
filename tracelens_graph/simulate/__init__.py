"""Simulated training runs whose truth is known.

`simulate` trains a small transformer on any number of imagined GPUs and gives, for each rank, the trace that
PyTorch's profiler would have written, its execution trace, and the truth about both. The same arguments give
the same bytes.

    from tracelens_graph.simulate import simulate, write
    run = simulate(ranks=2, seed=7)
    write(run, "folder")
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelens_graph.simulate.emit import Writer, write_trace
from tracelens_graph.simulate.execution_trace import execution_trace
from tracelens_graph.simulate.job import run_job
from tracelens_graph.simulate.job_truth import truth_of_job
from tracelens_graph.simulate.options import PROBLEMS, Options
from tracelens_graph.simulate.truth import truth_of
from tracelens_graph.utils.gc_pause import garbage_collection_paused
from tracelens_graph.utils.suggest import hint

__all__ = ["PROBLEMS", "Options", "RankTrace", "Run", "simulate", "write"]


@dataclass(frozen=True, slots=True)
class RankTrace:
    """What one rank left: Kineto JSON, PyTorch execution trace, and the truth about both."""

    rank: int
    trace: dict[str, Any]
    execution_trace: dict[str, Any]
    truth: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """A simulated job; `ranks` are those that left a trace."""

    options: Options
    ranks: list[RankTrace]


@garbage_collection_paused()
def simulate(
    ranks: int = 1, steps: int = 3, layers: int = 2, seed: int = 0, *, problem: str | None = None, **settings: Any
) -> Run:
    """Simulate a training job.

    `settings` are the other fields of `Options` (recompute, python_stacks, shapes, …). `problem` is a name
    from `PROBLEMS`; its settings count where none is given. Raises ValueError for a value that makes no
    sense or an unknown problem, TypeError for an unknown setting.
    """
    if problem is not None:
        if problem not in PROBLEMS:
            raise ValueError(f"unknown problem {problem!r}; {hint(problem, PROBLEMS)}")
        planted = dict(PROBLEMS[problem])
        ranks = max(ranks, planted.pop("ranks", 1))
        settings = planted | settings
    if isinstance(settings.get("recompute"), bool):
        settings["recompute"] = "non_reentrant" if settings["recompute"] else "none"
    options = Options(ranks=ranks, steps=steps, layers=layers, seed=seed, **settings)
    processes = run_job(options)
    traces = [Writer(process).write() for process in processes]  # truth refers to other ranks' events: write all first
    job = truth_of_job(processes)
    return Run(
        options,
        [
            RankTrace(process.rank, trace, execution_trace(process), truth_of(process, job))
            for process, trace in zip(processes, traces, strict=True)
            if process.rank not in options.missing_ranks
        ],
    )


def write(run: Run, folder: str | os.PathLike[str], *, traces_only: bool = False) -> list[Path]:
    """Write `rank<n>.json.gz`, `rank<n>.truth.json` and `rank<n>.execution-trace.json`.

    `traces_only` writes the first alone: the truth about many ranks is large, for it lists every rank's part of
    every collective. Gives the paths of the traces. Makes the folder; OSError if it cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank in run.ranks:
        stem = folder / f"rank{rank.rank}"
        files.append(stem.with_suffix(".json.gz"))
        write_trace(files[-1], rank.trace)
        if traces_only:
            continue
        stem.with_suffix(".truth.json").write_text(json.dumps(rank.truth))
        stem.with_suffix(".execution-trace.json").write_text(json.dumps(rank.execution_trace))
    return files
