"""`tracelens-graph report` of several traces: a line each, and one report; the work is done in several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelens_graph.cli.gate import Condition
from tracelens_graph.cli.hints import Asked as AskedOfRanks
from tracelens_graph.cli.options import ANYWHERE, Anywhere
from tracelens_graph.cli.outputs import write_tables
from tracelens_graph.cli.report_answer import Asked, answer_of
from tracelens_graph.cli.shown import Screen, put, screen
from tracelens_graph.cli.traces import call_devices, extension_of, load, say, warn
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.output.files import Protection, protecting, protection

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.trace_set import TraceSet


@dataclass(frozen=True)
class _Work:
    """One of several traces and what to do with it; may be sent to another process.

    Attributes:
        path: the trace.
        name: what it is called.
        asked: what is asked of it.
        conditions: conditions on its figures.
        folder: where its tables go; None to print.
        screen: what the terminal can show.
        protection: what must not be overwritten.
        anywhere: options of all commands.
    """

    path: str
    name: str
    asked: Asked
    conditions: list[Condition]
    folder: Path | None
    screen: Screen
    protection: Protection | None
    anywhere: Anywhere


@dataclass(frozen=True)
class Outcome:
    """What became of one trace.

    Attributes:
        text: what is printed of it.
        remarks, met: notes on conditions, and which are met.
        line: its line in the overview.
        accelerator: what its devices are called if they are no GPUs.
        error: why there is none.
        is_broken: whether that is a fault, and not a file that is not a trace.
    """

    text: str = ""
    remarks: Sequence[str] = ()
    met: Sequence[str] = ()
    line: Mapping[str, Any] | None = None
    accelerator: str = ""
    error: str = ""
    is_broken: bool = False


def many_traces(
    given: list[str], paths: list[str], asked: Asked, conditions: list[Condition], folder: Path | None,
    scheduler: str | None,
) -> list[Outcome]:  # fmt: skip
    """Work on many traces; print a line each, and one report.

    Args:
        given: what the user named: files, folders, patterns.
        paths: the files.
        asked: what is asked of each.
        conditions: conditions on figures of each.
        folder: where tables go, in a folder for each; None to print.
        scheduler: a Dask scheduler whose workers do it; without one it is done in a process per core.
    """
    from tracelens_graph.analyses.across.overview import late_trace, lateness_of, overview
    from tracelens_graph.errors import TraceError
    from tracelens_graph.loaders.sources import is_stream
    from tracelens_graph.loading.files import left_out_note
    from tracelens_graph.loading.pairing import execution_traces_alone, paired
    from tracelens_graph.utils.texts import distinct_names

    if alone := execution_traces_alone(paths):
        raise TraceError(alone)
    pairs = paired(paths)
    say(pairs.notes)
    paths = pairs.traces
    # Functions of an extension cannot be sent to a process; it loads them itself.
    plain = replace(asked, options=replace(asked.options, extension=None))
    work = [
        _Work(
            path, name, replace(plain, et=pairs.of_trace.get(path)), conditions,
            folder and folder / name.replace("/", "_"), screen(), protection(), ANYWHERE.get(),
        )
        for path, name in zip(paths, distinct_names(paths), strict=True)
    ]  # fmt: skip
    # What can be read once only is read here: another process has another standard input, and may lack a descriptor.
    done = {one.path: _outcome(one) for one in work if is_stream(one.path)}
    left = [one for one in work if one.path not in done]
    done |= _in_processes(left) if scheduler is None else _on_workers(left, scheduler)
    outcomes = [done[path] for path in paths]
    say(left_out_note([path for path, one in zip(paths, outcomes, strict=True) if one.error and not one.is_broken]))
    say(f"left out: {outcome.error}" for outcome in outcomes if outcome.error and outcome.is_broken)
    read = [outcome for outcome in outcomes if outcome.line is not None]
    if not read:
        raise TraceError(f"none of the {len(paths)} files is a trace that can be read")
    lines = [outcome.line for outcome in read if outcome.line is not None]
    ranks = _devices([path for path, one in zip(paths, outcomes, strict=True) if one.line], lines, asked, scheduler)
    late = lateness_of(lines, ranks)
    call_devices(outcome.accelerator for outcome in read)
    put(overview(lines, late).text(*screen()))
    if any(line["attendance"].held for line in lines):
        again = ["TRACE" if is_stream(one) else one for one in given]
        put(f"{AskedOfRanks(again, asked.window, asked.arch).next()}\n")
    put("\n")
    shown = read if folder else [read[late_trace(lines, late) or 0]]
    put("".join(outcome.text for outcome in shown))
    return outcomes


def _devices(
    paths: Sequence[str], lines: Sequence[Mapping[str, Any]], asked: Asked, scheduler: str | None
) -> TraceSet | None:
    """The devices in profiles of JAX, which all together show whether one is late.

    None where other traces are among them, or the window is not there on each device.
    """
    from tracelens_graph.analyses.ranks import COLUMNS
    from tracelens_graph.errors import AnalysisError, NodeNotFoundError
    from tracelens_graph.loaders.sources import is_stream
    from tracelens_graph.loading.many import load_core_set

    if len(paths) < 2 or not all(line["has_ranks"] for line in lines) or any(map(is_stream, paths)):
        return None
    is_cut = asked.window != WindowChoice()
    devices = load_core_set(paths, columns=None if is_cut else COLUMNS, scheduler=scheduler).by_device()
    try:
        return asked.window.of_each(devices) if is_cut else devices
    except (AnalysisError, NodeNotFoundError):
        return None


def _in_processes(work: list[_Work]) -> Iterator[tuple[str, Outcome]]:
    from tracelens_graph.utils.processes import map_in_processes

    outcomes = map_in_processes(_outcome, work, name=lambda one: one.path)
    return zip((one.path for one in work), outcomes, strict=True)


def _on_workers(work: list[_Work], scheduler: str) -> Iterator[tuple[str, Outcome]]:
    from tracelens_graph.errors import TraceError
    from tracelens_graph.loading.cluster import map_on_workers

    def there(one: _Work) -> _Work:
        et = one.asked.et and os.path.abspath(one.asked.et)
        return replace(one, path=os.path.abspath(one.path), asked=replace(one.asked, et=et))

    for path, outcome in map_on_workers(_outcome, {one.path: there(one) for one in work}, scheduler):
        if isinstance(outcome, TraceError):
            outcome = Outcome(error=str(outcome), is_broken=True)
        yield path, outcome


def _outcome(work: _Work) -> Outcome:
    """Work on one of several traces."""
    from tracelens_graph.analyses.across.overview import overview_line
    from tracelens_graph.errors import NotATraceError, TraceError

    ANYWHERE.set(work.anywhere)
    options = replace(work.asked.options, extension=extension_of(work.asked.extensions, warns=False))
    try:
        with protecting(work.protection):
            core = _with_link(load(work.path, processes=1, wants_gpu=True), work.asked.et)
            answer = answer_of(core, work.path, replace(work.asked, options=options), processes=1)
            text = f"{write_tables(answer.files, work.folder)}\n" if work.folder else answer.text(work.screen)
        remarks, met = answer.judged(work.conditions)
        line = overview_line(answer.w, work.name, options.linked_only)
    except TraceError as error:
        # Whatever else lies in a folder of traces is passed over, but not where a rank may be missing from a verdict.
        is_broken = bool(work.conditions) or not isinstance(error, NotATraceError)
        return Outcome(error=str(error), is_broken=is_broken)
    named = f"{work.name}: "
    from tracelens_graph.utils.texts import in_device_words

    text = in_device_words(text)  # here, where it is known what the devices of this trace are called
    return Outcome(
        text, [named + remark for remark in remarks], [named + one for one in met], line, core.info.accelerator
    )


def _with_link(core: Core, et: str | None) -> Core:
    """The graph linked with the execution trace that was found for it; as it is, with a warning, if that is refused."""
    from tracelens_graph.errors import LinkError, TraceError
    from tracelens_graph.loading.one import link_damage, linked

    if et is None:
        return core
    try:
        core = linked(core, et)
    except (LinkError, TraceError) as error:
        warn([f"{error}; reported without"])
    else:
        warn(filter(None, [link_damage(core)]))
    return core
