"""`tracelens-graph split`: the trace of a server as several small ones, by phase, steady state or iteration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli.cut import TO_SEE
from tracelens_graph.cli.options import TO_FOLDER, Trace, option, refuse
from tracelens_graph.cli.traces import load
from tracelens_graph.cli.windows import numbers_of

if TYPE_CHECKING:
    from tracelens_graph.analyses.serving.iterations import Served
    from tracelens_graph.graph.core import Core

DETAILS = "execution_details.json"
_NAMED = 10
"""Files that are named; of more, their number is."""


By = StrEnum("By", "phase steady iteration")
"""What the parts of a trace are."""


def split(
    trace: Trace,
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write to."), TO_FOLDER],
    *,
    by: Annotated[
        By, typer.Option(help="What becomes a trace: a phase, a stretch of the steady state, an iteration.")
    ] = By.phase,
    iteration: Annotated[str | None, option(metavar="N", help="Only these iterations: 3, 2-5 or 1,4-6.")] = None,
    num_steps: Annotated[int, typer.Option(min=1, metavar="N", help="With --by steady: longest stretch.")] = 32,
    mixed_share: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="P", help="With --by steady: share of steps with prompts that is wanted."),
    ] = None,
) -> None:
    """Split the trace of a server into small traces that Perfetto UI opens.

    Each trace holds what belongs to its iterations, whole events with their callers, launches and arrows. There is one
    file per phase (prefill, mixed, decode), per stretch of the steady state, or per iteration. execution_details.json
    lists what is in each, with the keys of TraceLens's splitter. For the ranks of a job, split each trace.

    Example: tracelens-graph split trace.json.gz -o phases

    Example: tracelens-graph split trace.json.gz --by steady --num-steps 32 -o steady
    """
    refuse((mixed_share is not None and by is not By.steady, "--mixed-share goes with --by steady"))
    from tracelens_graph.analyses.serving.iterations import served_in
    from tracelens_graph.graph.iterations import iterations_of
    from tracelens_graph.graph.window import narrow, whole_window

    wanted = None if iteration is None else numbers_of(iteration, "--iteration")
    core = load(trace)
    served = served_in(narrow(whole_window(core), iteration=wanted or range(len(iterations_of(core)))))
    _write(core, served, _parts(served, by, num_steps, mixed_share), folder)


def _parts(served: Served, by: By, num_steps: int, mixed_share: float | None) -> Mapping[str, Sequence[int]]:
    """Name of each part -> its iterations."""
    numbers = served.numbers.tolist()
    if by is By.iteration:
        return {f"iteration_{number}": [number] for number in numbers}
    if by is By.phase:
        phases = served.phases.tolist()
        return {
            phase: [number for number, one in zip(numbers, phases, strict=True) if one == phase]
            for phase in dict.fromkeys(phases)
        }
    from tracelens_graph.analyses.serving.phases import stretches

    found = stretches(served, num_steps, mixed_share)
    inside = {one.name: [number for number in numbers if one.first <= number < one.behind] for one in found[1:]}
    return {f"{name}_steady_state": chosen for name, chosen in inside.items() if chosen}


def _write(core: Core, served: Served, parts: Mapping[str, Sequence[int]], folder: Path) -> None:
    import numpy as np

    from tracelens_graph.output.folder import writing_folder
    from tracelens_graph.stores.cut import piece_of_iterations, write_piece
    from tracelens_graph.tables.terminal import progress_on_terminal

    names = [f"{name}.json.gz" for name in parts]
    details, lines, left_out = [], [], 0
    with writing_folder(folder, [*names, DETAILS]) as output:
        with progress_on_terminal("splitting") as progress:
            for index, (name, numbers) in enumerate(zip(names, parts.values(), strict=True)):
                lengths = served.on_device_ns[0][np.searchsorted(served.numbers, numbers)]
                piece = piece_of_iterations(core, numbers, lengths)
                left_out += piece.left_out.count if piece.left_out else 0
                with output.file(name) as file:
                    events = write_piece(piece, file, packed=True)
                details.append(_details(index, folder / name, events, served, numbers))
                held = f"{len(numbers):,} iteration{'s' * (len(numbers) != 1)}, {events:,} events"
                lines.append(f"wrote {folder / name}: {held}")
                if progress:
                    progress(index + 1, len(names))
        with output.file(DETAILS) as file:
            file.write(json.dumps(details, indent=2).encode() + b"\n")
    say_all = lines if len(lines) <= _NAMED else [f"wrote {len(lines):,} traces to {folder}"]
    note = ["time of iterations left out in between is marked in the files, and not counted as idle"] * bool(left_out)
    for line in [*say_all, f"wrote {folder / DETAILS}; {TO_SEE}", *note]:
        typer.echo(line)


def _details(index: int, path: Path, events: int, served: Served, numbers: Sequence[int]) -> dict[str, Any]:
    """What TraceLens's splitter says of a part; durations in us. gpu_busy_duration is a sum, as there."""
    import numpy as np

    c, gpu = served.window.core.columns, served.window.gpu_rows
    of = served.found.of[gpu]
    spans = []
    for number in numbers:
        rows = gpu[of == number]
        spans.append(int(c.end_ns[rows].max() - c.start_ns[rows].min()) if len(rows) else 0)
    inside = gpu[np.isin(of, numbers)]
    batches = [served.found.batches[number] for number in numbers]
    steps = [
        {
            "batch_size": batch.context.sq + batch.generation.sq or batch.size, "num_requests": batch.size,
            "context_requests": batch.context.count, "context_sum": batch.context.sq,
            "generation_requests": batch.generation.count, "generation_sum": batch.generation.sq,
        }
        for batch in batches
    ]  # fmt: skip
    counted = {name: sum(batch.phase == phase for batch in batches) for name, phase in (
        ("num_prefill", "prefill"), ("num_prefilldecode", "mixed"), ("num_decode", "decode"))}  # fmt: skip
    mean = {f"avg_{short}": round(sum(step[key] for step in steps) / len(steps))
            for short, key in (("bs", "batch_size"), ("conc", "num_requests"))}  # fmt: skip
    return {
        "idx": index, "output_path": str(path), "event_count": events, "num_gpu_events": len(inside),
        "gpu_duration": sum(spans) / 1e3, "gpu_busy_duration": int(c.dur_ns[inside].sum()) / 1e3,
        "iterations": list(numbers), "num_steps": len(numbers), "steps": steps, "phase": {**counted, **mean},
    }  # fmt: skip
