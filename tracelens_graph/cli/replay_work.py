"""The work of `tracelens-graph replay`: of a trace it lists operations or writes them, and programs it verifies."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli.options import architecture_named, architecture_of, as_written
from tracelens_graph.cli.outputs import Outputs
from tracelens_graph.cli.replay_asked import ROWS, Asked
from tracelens_graph.cli.shown import Shown, print_table, put
from tracelens_graph.cli.traces import extension_of, load
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.errors import AnalysisError

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.replay.folder import Program
    from tracelens_graph.replay.planned import Estimates, Plans
    from tracelens_graph.replay.signatures import Signatures
    from tracelens_graph.tables.table import Table


def replay_trace(asked: Asked) -> None:
    """List what can be replayed of a trace, or write it."""
    device, added = architecture_named(asked.arch), extension_of(list(asked.extensions))
    core = _in_database(asked.trace) if asked.from_database else load(asked.trace, wants_gpu=True, et=asked.et)
    if asked.by_roof:
        device = architecture_of(core, device)
    asked = _in_counted_steps(asked, core)
    w = _part(asked, core, added)
    if core.framework.compiles_programs and asked.output is not None and (asked.collectives or asked.is_sequence):
        what = "--collectives" if asked.collectives else "--under by itself"
        raise AnalysisError(f"{asked.trace}: {what} is not for profiles of JAX; single instructions are replayed")
    if asked.output is not None and (asked.collectives or asked.is_sequence):
        _write_one(asked, asked.output, w)
        return
    _list_or_write(asked, w, device)


def _in_database(trace: str) -> Core:
    """The signatures of a trace in the database, as a graph."""
    from tracelens_graph.cli.db import connection
    from tracelens_graph.db.database import Database

    with Database(connection()) as graphs:
        return graphs.signature_core(trace)


def _list_or_write(asked: Asked, w: Window, device: Architecture | None) -> None:
    from tracelens_graph.cli.replay_screens import print_screen, print_written
    from tracelens_graph.replay.listing import coverage, listing
    from tracelens_graph.replay.planned import Plans
    from tracelens_graph.replay.signatures import charge_all, signatures

    charged = charge_all(w)
    every = Plans(signatures(charged))
    if asked.table == "replay_coverage":
        covered = coverage(charged, every)
        _print_table(_without_uids(covered) if asked.from_database else covered, asked)
        return
    plans, most, files = Plans(_chosen(asked, w, every.signatures, device)), asked.rows, dict[int, str]()
    if asked.gemms is not None:
        _print_gemms(plans, asked.gemms, asked.top or 0)
        return
    if asked.sweep is not None and asked.output is not None:
        _write_sweep(asked.sweep, asked.output, plans, device)
        return
    if asked.output is not None:
        files = _write(asked, asked.output, plans, device)
        most = max(files) + 1 if len(files) == most else 0  # those between are said to be left out
    table = listing(plans.first(most), files)
    if asked.op is not None:
        table.title = w.titled(f"Calls of {as_written(asked.op)} to replay")
    elif asked.uid is None and not len(w.gpu_rows):
        table.title = w.titled("Operations to replay, the longest on the host first")
    if asked.from_database:
        table = _without_uids(table)
    if not asked.outputs.to_screen or asked.table is not None:
        _print_table(table, asked)
    elif asked.output is None:
        print_screen(asked, w, table, coverage(charged, every))
    else:
        print_written(asked, asked.output, table, coverage(charged, every), w.title)


def _without_uids(table: Table) -> Table:
    """A table of signatures in a database: the uids of the graph made of them are none of the trace."""
    return replace(table, columns={name: cells for name, cells in table.columns.items() if name != "uid"})


def _print_table(table: Table, asked: Asked) -> None:
    from tracelens_graph.cli.replay_screens import shown

    print_table(Shown(table, asked.top, ROWS, shown), asked.outputs)


def _in_counted_steps(asked: Asked, core: Core) -> Asked:
    """The steps that `report` takes where the recording began late, unless a part or another event was asked for."""
    from tracelens_graph.analyses.diagnosis.outside_steps import steps_alone
    from tracelens_graph.graph.window import whole_window

    if asked.window != WindowChoice() or asked.extensions or not core.framework.has_times:
        return asked
    found = steps_alone(whole_window(core))
    if found is None or (asked.uid is not None and not _is_in_steps(core, asked.uid)):
        return asked
    return replace(asked, window=WindowChoice(step=found[0]), outside=found[1].text)


def _is_in_steps(core: Core, uid: int) -> bool:
    """Whether an event is in a step; GPU work is in that of its launch."""
    row = core.row(uid)
    return bool(max(core.step[row], core.gpu_step[row]) >= 0)


def _part(asked: Asked, core: Core, added: Extension | None) -> Window:
    """The part of the trace that was asked for; where a sequence was, one node of the name alone."""
    if not asked.is_sequence:
        return asked.window.of(core, added)
    from tracelens_graph.replay.sequence import place

    w = WindowChoice().of(core, added)
    where = place(w.core, asked.under)
    return w.narrowed(where.holds, f"under {where.name}, uid {int(w.core.columns.uid[where.row])}")


def _chosen(asked: Asked, w: Window, every: Signatures, device: Architecture | None) -> Signatures:
    """The signatures of what was asked for, in order.

    Raises:
        AnalysisError: there is nothing to choose from.
        NodeNotFoundError: there is no such operation.
    """
    from tracelens_graph.replay.signatures import below_roof, longest_on_host, named, of_event

    if asked.op is not None:
        return named(w, asked.op)
    if asked.uid is not None:
        return of_event(w, asked.uid)
    if not len(w.core.columns):
        raise AnalysisError(f"{asked.trace}: is empty: it has no events that can be read")
    if not len(w.gpu_rows) and not asked.is_sequence:
        if asked.by_roof or not len(found := longest_on_host(w)):
            where = f" in {w.title}" if w.title else ""
            raise AnalysisError(f"there is no GPU work{where} to choose operations by; name one with --op or --uid")
        return found
    if asked.by_roof:
        assert device is not None
        return below_roof(w, device)
    return every


def _write(asked: Asked, folder: Path, plans: Plans, device: Architecture | None) -> dict[int, str]:
    """Write programs of the first signatures that have a plan; names of their files by place.

    Raises:
        AnalysisError: none has.
    """
    from tracelens_graph.replay.folder import batch_program, single_programs

    estimates = _estimates(plans.signatures.window, device)
    if asked.batch:
        programs = batch_program(plans, estimates, asked.rows)
    else:
        programs = single_programs(plans, estimates, asked.rows, asked.full)
    distinct = list({one.file: one for one in programs.values()}.values())
    _save(folder, distinct, estimates.window, asked.kernel_sources)
    return {place: program.file for place, program in programs.items()}


def _save(folder: Path, programs: Sequence[Program], w: Window, sources: Sequence[Path] = ()) -> list[Path]:
    """Write programs of a window and sources of kernels, and say which of an earlier run go; the programs' files.

    Raises:
        AnalysisError: a file with sources cannot be read, or has no kernel of these programs.
    """
    from tracelens_graph.cli.replay_screens import print_removed
    from tracelens_graph.replay.folder import write_folder
    from tracelens_graph.replay.triton import kernel_sources
    from tracelens_graph.utils.texts import file_name

    plans = [plan for one in programs for plan in one.plans] if sources else []
    written = write_folder(folder, programs, file_name(w.core.info.source), kernel_sources(plans, sources))
    print_removed(written.removed)
    return written.files


def _print_gemms(plans: Plans, benchmark: str, most: int) -> None:
    """Print the script of a benchmark of products.

    Raises:
        typer.BadParameter: there is no such benchmark.
    """
    from tracelens_graph.replay.gemms import BENCHMARKS, gemm_script
    from tracelens_graph.utils.suggest import hint

    if benchmark not in BENCHMARKS:
        raise typer.BadParameter(f"--gemms: there is no {benchmark!r}; {hint(benchmark, BENCHMARKS)}")
    for line in gemm_script(plans, benchmark, most):
        print(line)


def _estimates(w: Window, device: Architecture | None) -> Estimates:
    """What models say of the calls of a window; without a roof where the device is not known."""
    from tracelens_graph.replay.planned import Estimates

    try:
        return Estimates(w, architecture_of(w.core, device))
    except AnalysisError:
        return Estimates(w)


def _write_sweep(text: str, folder: Path, plans: Plans, device: Architecture | None) -> None:
    """Write programs of the first signature at other sizes.

    Raises:
        AnalysisError: it is no sweep, or the signature has no such size.
    """
    from tracelens_graph.cli.replay_screens import print_sweep
    from tracelens_graph.replay.folder import Program, program_name
    from tracelens_graph.replay.sweep import Sweep, swept

    w = plans.signatures.window
    found = swept(plans, 0, Sweep.parsed(text), _estimates(w, device))
    programs = [Program.of(plan, program_name(plan, number)) for number, plan in enumerate(found.plans, 1)]
    print_sweep(found, _save(folder, programs, w))


def _write_one(asked: Asked, folder: Path, w: Window) -> None:
    """Write the program of all collectives, or of all operations below a node."""
    from tracelens_graph.cli.replay_screens import print_collectives, print_sequence
    from tracelens_graph.replay.collectives import collective_plan
    from tracelens_graph.replay.folder import COLLECTIVES, Program
    from tracelens_graph.replay.sequence import sequence

    if asked.collectives:
        plan = collective_plan(w)
        print_collectives(plan, *_save(folder, [Program.of(plan, COLLECTIVES)], w))
    else:
        found = sequence(w, asked.under)
        print_sequence(found, *_save(folder, [Program.of(found, found.file_name)], w, asked.kernel_sources))


# --- without a trace ------------------------------------------------------------------------------------------------


_COMPARED = ("equal", "equal but assumed", "equal arguments", "new sizes", "reference", "equal shapes", "ran")
"""Outcomes of programs that ran as they should."""
_AS_TRACED = (*_COMPARED, "not filled", "needs ranks", "not run", "no library")
"""Outcomes that are no fault of a program."""

_HEAD = 1 << 16
"""Bytes of a file in which results show as such."""


def verify_folder(
    folders: Sequence[str], python: str | None, reference: bool, extensions: Sequence[str], outputs: Outputs
) -> None:
    """Run the programs of a folder, and print how each compares with the trace.

    Operations that come along are run by their libraries, or by plain torch if `reference` says so.
    Programs may call, besides those of PyTorch, operations of the extensions' replayers, and import their modules.

    Raises:
        typer.BadParameter: not one folder is named, or an extension is none.
        typer.Exit: with code 1 if one failed or is not as in the trace.
        AnalysisError: none was run.
    """
    if len(folders) != 1:
        raise typer.BadParameter(f"--verify takes one folder, not {len(folders)}")
    from tracelens_graph.cli.replay_screens import print_failures
    from tracelens_graph.replay.verify.verify import verify
    from tracelens_graph.tables.terminal import progress_on_terminal

    extension = extension_of(list(extensions))
    replayers = list(extension.replayers.values()) if extension else []
    with progress_on_terminal("running programs") as progress:
        table = verify(folders[0], python=python, replayers=replayers, reference=reference, progress=progress)
    _print(table, outputs)
    if outputs.to_screen or outputs.format == "md":
        print_failures(table)
    if not set(table["outcome"]) <= set(_AS_TRACED):
        raise typer.Exit(1)
    if not set(table["outcome"]) & set(_COMPARED):
        raise AnalysisError("nothing was verified: none of these programs runs by itself")


def compare_results(files: Sequence[str], name: str | None, outputs: Outputs) -> None:
    """Print the results that programs wrote on several devices side by side: in sum, then by operation.

    Of one device they are listed by operation alone.

    Args:
        files: files of results, or folders of such.
        name: of the table that is asked for; None shows both, and writes that by operation.
        outputs: where to.

    Raises:
        ResultsError: one cannot be read, or holds something else, such as a trace.
        AnalysisError: no two have anything in common.
    """
    from tracelens_graph.errors import ResultsError
    from tracelens_graph.replay.devices import compared_results
    from tracelens_graph.reports.views import with_headings

    try:
        found = compared_results(*files)
    except ResultsError as error:
        comparing = shlex.join(["tracelens-graph", "diff", *files])
        raise ResultsError(f"{error}; results of programs are compared here, traces by: {comparing}") from None
    if name is None and outputs.to_screen and len(files) == 1:
        _print(found.results, outputs)
    elif name is None and outputs.to_screen:
        put(Shown(found.devices, view=with_headings).text())
        _print(replace(found.results, title="By operation"), outputs)
    else:
        _print(found.devices if name == "replay_devices" else found.results, outputs)
    if len(files) > 1 and not any(found.results["fastest"]):
        raise AnalysisError("nothing was compared: no operation ran with the same arguments on two of them")


def check_is_no_folder(trace: str) -> None:
    """Refuse a folder of programs, or one file of results, where a trace is wanted.

    Raises:
        typer.BadParameter: it is one.
    """
    from tracelens_graph.replay.folder import INDEX

    if (Path(trace) / INDEX).is_file():
        verifying = shlex.join(["tracelens-graph", "replay", "--verify", trace])
        raise typer.BadParameter(f"{trace}: is a folder of programs; they are verified by: {verifying}")
    if Path(trace).suffix == ".json" and Path(trace).is_file():
        with open(trace, "rb") as file:
            head = file.read(_HEAD)
        if b'"median_us"' in head and b'"traceEvents"' not in head:
            raise typer.BadParameter(
                f"{trace}: holds results of programs; --compare puts several such files side by side"
            )


def _print(table: Table, outputs: Outputs) -> None:
    from tracelens_graph.reports.views import with_headings

    print_table(Shown(table, view=with_headings), outputs)
