"""What `tracelens-graph replay` was asked for."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import typer

from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import as_written, refuse
from tracelens_graph.cli.outputs import Outputs
from tracelens_graph.cli.windows import WindowChoice

ROWS = 10
"""Operations that are taken where nothing else is asked for."""
_SUFFIXES = (".csv", ".html", ".json", ".md", ".txt", ".xlsx")
"""Ends of names that mean a file to every other command."""
_FOR_PROGRAMS = ("--full", "--batch", "--collectives", "--kernel-source", "--sweep")


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
    full: bool
    batch: bool
    collectives: bool
    kernel_sources: tuple[Path, ...]
    sweep: str | None
    gemms: str | None
    table: str | None
    from_database: bool
    et: str | None
    arch: str | None
    extensions: tuple[str, ...]
    outputs: Outputs
    outside: str = ""
    """What lies outside of the steps that were chosen where no part was asked for."""

    def check(self) -> None:
        """Refuse options that exclude one another.

        Raises:
            typer.BadParameter: there are such.
        """
        names_one, given = self.op is not None or self.uid is not None, self.given
        is_file = self.output is not None and self.output.suffix in _SUFFIXES and not self.output.is_dir()
        for_programs = [one for one in _FOR_PROGRAMS if one in given and self.output is None]
        refuse(
            (self.op is not None and self.uid is not None, "--op and --uid: give one of them"),
            (self.by_roof and names_one, "--by below-roof chooses operations itself: leave out --op and --uid"),
            (self.table is not None and self.output is not None, "--table goes without -o"),
            (is_file, f"-o {self.output}: names a folder for programs; a table is printed by -f"),
            (self.gemms is not None and (self.output or self.table),
             "--gemms prints a script: leave out -o and --table"),
            *((True, f"{one} needs -o DIR") for one in for_programs),
            (self.sweep is not None and (self.batch or self.collectives),
             "--sweep writes programs of one operation: leave out --batch and --collectives"),
            (self.from_database and (self.et or self.collectives or self.window != WindowChoice()),
             "--from-database: signatures have no place in a trace; leave out --collectives, --et and what takes a "
             "part of a trace"),
            (self.from_database and self.uid is not None,
             "--uid goes without --from-database: a signature holds no uid of the trace; name operations with --op"),
            (self.collectives and (self.words or self.batch),
             "--collectives takes all of them: leave out --batch and what chooses operations"),
        )  # fmt: skip

    def check_is_plain(self, what: str) -> None:
        """Refuse the options that are for a trace.

        Raises:
            typer.BadParameter: one was given.
        """
        if self.given or self.window != WindowChoice():
            named = ", ".join(self.given) or "the options of windows"
            raise typer.BadParameter(f"{what} takes no trace; leave out {named}")

    @property
    def given(self) -> list[str]:
        """The options for a trace that were given."""
        values = {
            "--op": self.op is not None, "--uid": self.uid is not None, "--top": self.top is not None,
            "-o": self.output, "--et": self.et, "--arch": self.arch, "--by": self.by_roof,
            "--full": self.full, "--batch": self.batch, "--collectives": self.collectives, "--table": self.table,
            "--kernel-source": self.kernel_sources,
            "--from-database": self.from_database, "--sweep": self.sweep, "--gemms": self.gemms,
        }  # fmt: skip
        return [option for option, value in values.items() if value]

    @cached_property
    def call(self) -> Call:
        """What hints keep to."""
        return Call(self.trace, self.window, self.extensions, et=self.et, arch=self.arch)

    @property
    def under(self) -> int | str:
        """The node that a sequence is below."""
        assert isinstance(self.window.under, int | str)
        return self.window.under

    @property
    def is_sequence(self) -> bool:
        """Whether all operations below one node are meant, as one program."""
        under = self.window.under
        return isinstance(under, int | str) and self.window == WindowChoice(under=under) and not self.words

    @property
    def rows(self) -> int:
        """How many operations are taken; 0 for all."""
        if self.top is not None:
            return self.top
        return ROWS if self.op is None and self.uid is None else 0

    @property
    def words(self) -> str:
        """The options that choose operations, as they were given."""
        words = {
            "--op": None if self.op is None else as_written(self.op), "--uid": self.uid,
            "--by": "below-roof" if self.by_roof else None, "--top": self.top,
        }  # fmt: skip
        return shlex.join(str(word) for option in words.items() if option[1] is not None for word in option)
