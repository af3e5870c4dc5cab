"""The work of `tracelens-graph replay` on a trace: what it lists and writes."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tracelens_graph.cli.common import load, write_table
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import Format, architecture_named, architecture_of, extension_of
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.replay.planned import Plans
    from tracelens_graph.replay.signatures import Signatures
    from tracelens_graph.table import Table

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
    et: str | None
    arch: str | None
    extensions: tuple[str, ...]
    format: Format
    cache: bool

    @cached_property
    def call(self) -> Call:
        """What hints keep to."""
        return Call(self.trace, self.window, self.extensions, et=self.et)

    @property
    def words(self) -> str:
        """The options that choose operations, as they were given."""
        import shlex

        from tracelens_graph.cli.options import as_written

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
    w = asked.window.of(core, added)
    from tracelens_graph.replay.coverage import coverage
    from tracelens_graph.replay.listing import listing
    from tracelens_graph.replay.planned import Plans
    from tracelens_graph.replay.signatures import charge_all, signatures

    charged = charge_all(w)
    every = Plans(signatures(charged))
    chosen = _chosen(asked, w, every.signatures, device)
    plans = Plans(chosen)
    table = listing(plans)
    if asked.format is not Format.table:
        write_table(table, asked.format)
        return
    _print_screen(asked, plans, table, coverage(charged, every))


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


def _print_screen(asked: Asked, plans: Plans, table: Table, covered: Table) -> None:
    from tracelens_graph.reports.replay_text import coverage_lines, shown
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    width, color = terminal_width(sys.stdout), wants_color(sys.stdout)
    sys.stdout.write(shown(table).text(width, color))
    for line in coverage_lines(covered, width):
        print(line)
    if any(state != "no" for state in table["plan"]):
        print(f"ask next: {asked.call.complete(f'tracelens-graph replay TRACE {asked.words} -o replay/')}")
