"""The work of `tracelens-graph replay` on a trace: what it lists and writes."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli.common import load, write_table
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import Format, architecture_named, architecture_of, as_written, extension_of
from tracelens_graph.cli.outputs import say_written
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.extension import Extension
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.replay.planned import Estimates, Plans
    from tracelens_graph.replay.signatures import Signatures
    from tracelens_graph.table import Table

TABLES = ("replay_signatures", "replay_coverage")
ROWS = 10
"""Operations that are taken where nothing else is asked for."""


@dataclass(frozen=True)
class Asked:
    """What the command was asked for; see `cli.replay.replay`."""

    trace: str
    window: WindowChoice
    op: str | re.Pattern[str] | None
    uid: int | None
    top: int | None
    by_roof: bool
    output: Path | None
    batch: bool
    collectives: bool
    table: str | None
    et: str | None
    arch: str | None
    extensions: tuple[str, ...]
    format: Format
    cache: bool

    def check(self) -> None:
        """Refuse options that exclude one another.

        Raises:
            typer.BadParameter: there are such.
        """
        if self.op is not None and self.uid is not None:
            raise typer.BadParameter("--op and --uid: give one of them")
        if self.by_roof and (self.op is not None or self.uid is not None):
            raise typer.BadParameter("--by below-roof chooses operations itself: leave out --op and --uid")
        if self.table is not None and self.output is not None:
            raise typer.BadParameter("--table goes without -o")
        for option, is_given in (("--batch", self.batch), ("--collectives", self.collectives)):
            if is_given and self.output is None:
                raise typer.BadParameter(f"{option} needs -o DIR")
        if self.collectives and (self.words or self.batch):
            raise typer.BadParameter("--collectives takes all of them: leave out --batch and what chooses operations")

    def check_is_plain(self, what: str) -> None:
        """Refuse the options that are for a trace.

        Raises:
            typer.BadParameter: one was given.
        """
        chosen = {
            "--op": self.op, "--uid": self.uid, "--top": self.top, "-o": self.output, "--et": self.et,
            "--arch": self.arch, "--extension": self.extensions or None, "--by": self.by_roof or None,
            "--cache": self.cache or None, "--batch": self.batch or None, "--collectives": self.collectives or None,
            "--table": self.table,
        }  # fmt: skip
        given = [option for option, value in chosen.items() if value is not None]
        if given or self.window != WindowChoice():
            raise typer.BadParameter(f"{what} takes no trace; leave out {', '.join(given) or 'the options of windows'}")

    @cached_property
    def call(self) -> Call:
        """What hints keep to."""
        return Call(self.trace, self.window, self.extensions, et=self.et)

    @property
    def is_sequence(self) -> bool:
        """Whether all operations below one node are meant, as one program."""
        under = self.window.under
        return isinstance(under, int | str) and self.window == WindowChoice(under=under) and not self.words

    @property
    def words(self) -> str:
        """The options that choose operations, as they were given."""
        said = []
        if self.op is not None:
            said += ["--op", as_written(self.op)]
        if self.uid is not None:
            said += ["--uid", str(self.uid)]
        if self.by_roof:
            said += ["--by", "below-roof"]
        if self.top is not None:
            said += ["--top", str(self.top)]
        if self.arch is not None:
            said += ["--arch", self.arch]
        return shlex.join(said)


def replay_trace(asked: Asked) -> None:
    """List what can be replayed of a trace, or write it."""
    device, added = architecture_named(asked.arch), extension_of(list(asked.extensions))
    core = load(asked.trace, asked.cache, wants_gpu=True, et=asked.et)
    if asked.by_roof:
        device = architecture_of(core, device)
    w = _part(asked, core, added)
    from tracelens_graph.replay.coverage import coverage
    from tracelens_graph.replay.listing import listing
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
    plans = Plans(_chosen(asked, w, every.signatures, device))
    estimates = Estimates(w, device or _device(w.core))
    files = {} if asked.output is None else _write(asked.output, plans, estimates, asked.batch)
    table = listing(plans, files)
    if asked.format is not Format.table or asked.table is not None:
        _print_table(table, asked)
    elif asked.output is None:
        _print_screen(asked, w, table, coverage(charged, every))
    else:
        _tell(asked.output, table, coverage(charged, every), not asked.batch)


def _print_table(table: Table, asked: Asked) -> None:
    from tracelens_graph.reports.replay_text import shown
    from tracelens_graph.reports.views import top

    rows = (ROWS if asked.format is Format.table else 0) if asked.top is None else asked.top
    first = top(table, rows)
    write_table(shown(first) if asked.format in (Format.table, Format.md) else first, asked.format)


def _part(asked: Asked, core: Core, added: Extension | None) -> Window:
    """The part of the trace that was asked for; where a sequence was, one node of the name alone."""
    if not asked.is_sequence:
        return asked.window.of(core, added)
    from tracelens_graph.replay.places import place

    w = WindowChoice().of(core, added)
    assert isinstance(asked.window.under, int | str)
    where = place(w.core, asked.window.under)
    return w.narrowed(where.holds, f"under {where.name}, uid {int(w.core.columns.uid[where.row])}")


def _chosen(asked: Asked, w: Window, every: Signatures, device: Architecture | None) -> Signatures:
    """The signatures that were asked for.

    Raises:
        AnalysisError: there is no GPU work by which to choose.
        NodeNotFoundError: there is no such operation.
    """
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.replay.signatures import below_roof, named, of_event

    if asked.op is not None:
        return named(w, asked.op).first(asked.top or 0)
    if asked.uid is not None:
        return of_event(w, asked.uid)
    if not len(w.gpu_rows):
        where = f" in {w.title}" if w.title else ""
        raise AnalysisError(f"there is no GPU work{where} to choose operations by; name one with --op or --uid")
    if asked.by_roof:
        assert device is not None
        every = below_roof(w, device)
    return every.first(ROWS if asked.top is None else asked.top)


def _device(core: Core) -> Architecture | None:
    """The device of the trace, for the roofs of programs; None where it is not known."""
    from tracelens_graph.errors import AnalysisError

    try:
        return architecture_of(core, None)
    except AnalysisError:
        return None


def _write(folder: Path, plans: Plans, estimates: Estimates, batch: bool) -> dict[int, str]:
    """Write programs of the signatures that have a plan; names of their files by place.

    Raises:
        AnalysisError: none has.
    """
    from tracelens_graph.files import file_name
    from tracelens_graph.replay.folder import write_folder
    from tracelens_graph.replay.programs import batch_program, nothing, single_programs

    trace = file_name(plans.signatures.core.info.source)
    if batch:
        program, others = batch_program(plans, estimates)
        write_folder(folder, [program], trace, others)
        return {place: program.file for place in range(len(plans.signatures)) if plans[place].plan is not None}
    programs = single_programs(plans, estimates)
    if not programs:
        raise nothing(plans)
    write_folder(folder, list(programs.values()), trace)
    return {place: program.file for place, program in programs.items()}


def _write_sequence(asked: Asked, w: Window) -> None:
    from tracelens_graph.files import file_name
    from tracelens_graph.replay.folder import write_folder
    from tracelens_graph.replay.programs import sequence_program
    from tracelens_graph.replay.sequence import sequence
    from tracelens_graph.reports.replay_text import sequence_lines
    from tracelens_graph.reports.terminal import terminal_width

    assert asked.output is not None
    assert isinstance(asked.window.under, int | str)
    found = sequence(w.core, asked.window.under)
    (file,) = write_folder(asked.output, [sequence_program(found)], file_name(w.core.info.source))
    say_written(f"wrote {_operations(len(found.steps))} as {file}", asked.output)
    for line in sequence_lines(found, terminal_width(sys.stdout)):
        print(line)
    _say_how_to_run(asked.output, file.name, True)


def _operations(count: int) -> str:
    return "1 operation" if count == 1 else f"{count:,} operations in their order"


def _write_collectives(asked: Asked, w: Window) -> None:
    from tracelens_graph.files import file_name
    from tracelens_graph.replay.folder import write_folder
    from tracelens_graph.replay.programs import collectives_program

    assert asked.output is not None
    (file,) = write_folder(asked.output, [collectives_program(w)], file_name(w.core.info.source))
    world = w.core.info.world_size
    say_written(f"wrote the collectives as {file}", asked.output)
    print(f"run it: torchrun --nproc-per-node {world or 'N'} {shlex.quote(str(file))}")


def _print_screen(asked: Asked, w: Window, table: Table, covered: Table) -> None:
    from tracelens_graph.reports.replay_text import coverage_lines, shown
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    width, color = terminal_width(sys.stdout), wants_color(sys.stdout)
    sys.stdout.write(shown(table).text(width, color))
    for line in coverage_lines(covered, width):
        print(line)
    if not any(state != "no" for state in table["plan"]):
        return
    words = asked.words
    if asked.is_sequence and not _tell_sequence(asked, w, width):
        words = "--top 0"  # single programs instead
    print(f"ask next: {asked.call.complete(f'tracelens-graph replay TRACE {words} -o replay/')}")


def _tell_sequence(asked: Asked, w: Window, width: int) -> bool:
    """Say what one program of all operations is like; whether there is one."""
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.replay.sequence import sequence
    from tracelens_graph.reports.replay_text import sequence_lines
    from tracelens_graph.texts import printable, wrapped

    assert isinstance(asked.window.under, int | str)
    try:
        found = sequence(w.core, asked.window.under)
    except AnalysisError as error:
        for line in wrapped(printable(f"As one program: {error}"), width, "  "):
            print(line)
        return False
    print(f"As one program: {_operations(len(found.steps))}")
    for line in sequence_lines(found, width):
        print(line)
    return True


def _tell(folder: Path, table: Table, covered: Table, can_be_verified: bool) -> None:
    """Say what was written, how to run it, and what was left out."""
    from tracelens_graph.reports.replay_text import coverage_lines, left_out_lines
    from tracelens_graph.reports.terminal import terminal_width

    width = terminal_width(sys.stdout)
    files = list(dict.fromkeys(name for name in table["file"] if name))
    share = sum(percent for percent, name in zip(table["percent"], table["file"], strict=True) if name)
    programs = "program" if len(files) == 1 else "programs"
    say_written(f"wrote {len(files):,} {programs} and replay.json to {folder}: {share:.1f} % of the GPU time", folder)
    for line in (*left_out_lines(table, width), *coverage_lines(covered, width)):
        print(line)
    _say_how_to_run(folder, files[0], len(files) == 1)
    if can_be_verified:
        print(f"verify them: tracelens-graph replay --verify {shlex.quote(str(folder))}")


def _say_how_to_run(folder: Path, file: str, is_only: bool) -> None:
    print(f"run {'it' if is_only else 'the first'}: python {shlex.quote(str(folder / file))}")
