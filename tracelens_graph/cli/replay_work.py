"""The work of `tracelens-graph replay` on a trace: it chooses operations, and lists or writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracelens_graph.cli.common import load, write_table, write_with_way_out
from tracelens_graph.cli.options import Format, architecture_named, architecture_of, as_written, extension_of
from tracelens_graph.cli.replay_asked import ROWS, Asked
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.replay.planned import Plans
    from tracelens_graph.replay.signatures import Signatures
    from tracelens_graph.tables.table import Table


def replay_trace(asked: Asked) -> None:
    """List what can be replayed of a trace, or write it."""
    device, added = architecture_named(asked.arch), extension_of(list(asked.extensions))
    core = load(asked.trace, asked.cache, wants_gpu=True, et=asked.et)
    if asked.by_roof:
        device = architecture_of(core, device)
    w = _part(asked, core, added)
    is_several = asked.batch or asked.collectives or asked.is_sequence
    if core.framework.compiles_programs and asked.output is not None and is_several:
        from tracelens_graph.errors import AnalysisError

        raise AnalysisError(f"{asked.trace}: of profiles of JAX there are programs of one instruction each")
    if asked.output is not None and (asked.collectives or asked.is_sequence):
        _write_one(asked, asked.output, w)
        return
    _list_or_write(asked, w, device)


def _list_or_write(asked: Asked, w: Window, device: Architecture | None) -> None:
    from tracelens_graph.cli.replay_screens import print_screen, print_written
    from tracelens_graph.replay.listing import coverage, listing
    from tracelens_graph.replay.planned import Plans
    from tracelens_graph.replay.signatures import charge_all, signatures

    charged = charge_all(w)
    every = Plans(signatures(charged))
    if asked.table == "replay_coverage":
        _print_table(coverage(charged, every), asked)
        return
    plans, most, files = Plans(_chosen(asked, w, every.signatures, device)), asked.rows, dict[int, str]()
    if asked.output is not None:
        files = _write(asked, asked.output, plans, device)
        most = max(files) + 1 if len(files) == most else 0  # those between are said to be left out
    table = listing(plans.first(most), files)
    if asked.op is not None:
        table.title = w.titled(f"Calls of {as_written(asked.op)} to replay")
    if asked.format is not Format.table or asked.table is not None:
        _print_table(table, asked)
    elif asked.output is None:
        print_screen(asked, w, table, coverage(charged, every))
    else:
        can_be_verified = not asked.batch and not w.core.framework.compiles_programs
        print_written(asked.output, table, coverage(charged, every), can_be_verified)


def _print_table(table: Table, asked: Asked) -> None:
    from tracelens_graph.cli.replay_screens import shown
    from tracelens_graph.reports.views import top

    rows = (ROWS if asked.format is Format.table else 0) if asked.top is None else asked.top
    first = top(table, rows)
    if asked.format is Format.table:
        write_with_way_out(shown(first))
    else:
        write_table(shown(first) if asked.format is Format.md else first, asked.format)


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
        AnalysisError: there is no GPU work by which to choose.
        NodeNotFoundError: there is no such operation.
    """
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.replay.signatures import below_roof, named, of_event

    if asked.op is not None:
        return named(w, asked.op)
    if asked.uid is not None:
        return of_event(w, asked.uid)
    if not len(w.core.columns):
        raise AnalysisError(f"{asked.trace}: is empty: it has no events that can be read")
    if not len(w.gpu_rows) and not asked.is_sequence:
        where = f" in {w.title}" if w.title else ""
        raise AnalysisError(f"there is no GPU work{where} to choose operations by; name one with --op or --uid")
    if asked.by_roof:
        assert device is not None
        return below_roof(w, device)
    return every


def _write(asked: Asked, folder: Path, plans: Plans, device: Architecture | None) -> dict[int, str]:
    """Write programs of the first signatures that have a plan; names of their files by place.

    Raises:
        AnalysisError: none has, or a file with the source of kernels cannot be read, or has none of them.
    """
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.replay.folder import batch_program, single_programs, write_folder
    from tracelens_graph.replay.planned import Estimates
    from tracelens_graph.replay.triton import kernel_sources
    from tracelens_graph.utils.texts import file_name

    w = plans.signatures.window
    try:
        device = architecture_of(w.core, device)
    except AnalysisError:  # programs name no roof then
        device = None
    estimates = Estimates(w, device)
    if asked.batch:
        programs = batch_program(plans, estimates, asked.rows)
    else:
        programs = single_programs(plans, estimates, asked.rows, asked.full)
    kernels = [one.plans[0] for one in programs.values() if one.kind == "triton"]
    distinct = list({one.file: one for one in programs.values()}.values())
    write_folder(folder, distinct, file_name(w.core.info.source), kernel_sources(kernels, asked.kernel_sources))
    return {place: program.file for place, program in programs.items()}


def _write_one(asked: Asked, folder: Path, w: Window) -> None:
    """Write the program of all collectives, or of all operations below a node."""
    from tracelens_graph.cli.replay_screens import print_collectives, print_sequence
    from tracelens_graph.replay.collectives import collective_plan
    from tracelens_graph.replay.folder import COLLECTIVES, Program, write_folder
    from tracelens_graph.replay.sequence import sequence
    from tracelens_graph.utils.texts import file_name

    trace = file_name(w.core.info.source)
    if asked.collectives:
        plan = collective_plan(w)
        (file,) = write_folder(folder, [Program.of(plan, COLLECTIVES)], trace)
        print_collectives(plan, file)
    else:
        found = sequence(w, asked.under)
        (file,) = write_folder(folder, [Program.of(found, found.file_name)], trace)
        print_sequence(found, file)
