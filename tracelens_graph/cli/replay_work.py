"""The work of `tracelens-graph replay` on a trace: it chooses operations, and lists or writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens_graph.cli.options import architecture_named, architecture_of, as_written
from tracelens_graph.cli.replay_asked import ROWS, Asked
from tracelens_graph.cli.replay_screens import print_screen, tell_collectives, tell_sequence, tell_written
from tracelens_graph.cli.shown import Shown, print_table
from tracelens_graph.cli.traces import extension_of, load
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.replay.planned import Estimates, Plans
    from tracelens_graph.replay.signatures import Signatures
    from tracelens_graph.tables.table import Table


def replay_trace(asked: Asked) -> None:
    """List what can be replayed of a trace, or write it."""
    device, added = architecture_named(asked.arch), extension_of(list(asked.extensions))
    core = load(asked.trace, wants_gpu=True, et=asked.et)
    if asked.by_roof:
        device = architecture_of(core, device)
    w = _part(asked, core, added)
    _check_programs(asked, core)
    from tracelens_graph.replay.listing import coverage, listing
    from tracelens_graph.replay.planned import Estimates, Plans
    from tracelens_graph.replay.signatures import charge_all, signatures

    if asked.collectives:
        _write_collectives(asked, w)
        return
    if asked.is_sequence and asked.output is not None:
        _write_sequence(asked, w)
        return
    charged = charge_all(w)
    every = Plans(signatures(charged))
    if asked.table == "replay_coverage":
        _print_table(coverage(charged, every), asked)
        return
    plans, most, files = Plans(_chosen(asked, w, every.signatures, device)), _most(asked), {}
    if asked.output is not None:
        files = _write(asked, plans, Estimates(w, device or _device(w.core)), most)
        most = max(files) + 1 if len(files) == most else 0  # those between are said to be left out
    table = listing(plans.first(most), files)
    if asked.op is not None:
        table.title = w.titled(f"Calls of {as_written(asked.op)} to replay")
    if not asked.outputs.to_screen or asked.table is not None:
        _print_table(table, asked)
    elif asked.output is None:
        print_screen(asked, w, table, coverage(charged, every))
    else:
        tell_written(
            asked.output, table, coverage(charged, every), not asked.batch and not core.framework.compiles_programs
        )


def _check_programs(asked: Asked, core: Core) -> None:
    """Refuse programs of several operations of a profile of JAX.

    Raises:
        AnalysisError: such a program was asked for.
    """
    from tracelens_graph.errors import AnalysisError

    if (
        core.framework.compiles_programs
        and asked.output is not None
        and (asked.batch or asked.collectives or asked.is_sequence)
    ):
        raise AnalysisError(f"{asked.trace}: of profiles of JAX there are programs of one instruction each")


def _print_table(table: Table, asked: Asked) -> None:
    from tracelens_graph.reports.replay_text import shown

    print_table(Shown(table, asked.top, ROWS, shown), asked.outputs)


def _part(asked: Asked, core: Core, added: Extension | None) -> Window:
    """The part of the trace that was asked for; where a sequence was, one node of the name alone."""
    if not asked.is_sequence:
        return asked.window.of(core, added)
    from tracelens_graph.replay.sequence import place

    w = WindowChoice().of(core, added)
    assert isinstance(asked.window.under, int | str)
    where = place(w.core, asked.window.under)
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


def _most(asked: Asked) -> int:
    """How many signatures are taken; 0 for all."""
    if asked.top is not None:
        return asked.top
    return ROWS if asked.op is None and asked.uid is None else 0


def _device(core: Core) -> Architecture | None:
    """The device of the trace, for the roofs of programs; None where it is not known."""
    from tracelens_graph.errors import AnalysisError

    try:
        return architecture_of(core, None)
    except AnalysisError:
        return None


def _write(asked: Asked, plans: Plans, estimates: Estimates, most: int) -> dict[int, str]:
    """Write programs of the first signatures that have a plan; names of their files by place.

    Raises:
        AnalysisError: none has, or a file with the source of kernels cannot be read, or has none of them.
    """
    from tracelens_graph.replay.folder import batch_program, single_programs, write_folder
    from tracelens_graph.replay.triton import kernel_sources

    assert asked.output is not None
    if asked.batch:
        programs = batch_program(plans, estimates, most)
    else:
        programs = single_programs(plans, estimates, most, asked.full)
    kernels = [one.plans[0] for one in programs.values() if one.kind == "triton"]
    distinct = list({one.file: one for one in programs.values()}.values())
    sources = kernel_sources(kernels, asked.kernel_sources)
    write_folder(asked.output, distinct, _trace(plans.signatures.core), sources)
    return {place: program.file for place, program in programs.items()}


def _write_sequence(asked: Asked, w: Window) -> None:
    from tracelens_graph.replay.folder import Program, write_folder
    from tracelens_graph.replay.sequence import sequence

    assert asked.output is not None
    assert isinstance(asked.window.under, int | str)
    found = sequence(w, asked.window.under)
    (file,) = write_folder(asked.output, [Program.of(found, found.file_name)], _trace(w.core))
    tell_sequence(found, file)


def _write_collectives(asked: Asked, w: Window) -> None:
    from tracelens_graph.replay.collectives import collective_plan
    from tracelens_graph.replay.folder import COLLECTIVES, Program, write_folder

    assert asked.output is not None
    found = collective_plan(w)
    (file,) = write_folder(asked.output, [Program.of(found, COLLECTIVES)], _trace(w.core))
    tell_collectives(found, file)


def _trace(core: Core) -> str:
    """Name of the trace's file."""
    from tracelens_graph.utils.texts import file_name

    return file_name(core.info.source)
