"""Runs as tables, and how the last of them compares with the first: what `compare` and `report --against` share."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracelens_graph.cli import gate
from tracelens_graph.cli.hints import Call, without_folders
from tracelens_graph.cli.traces import load, names_of
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.analyses.across.compare import Run
    from tracelens_graph.analyses.report.report_tables import ReportOptions
    from tracelens_graph.tables.table import Table

SUFFIXES = ("diff", "pct")
"""What a figure of a comparison ends with: the change in its own unit, or in percent."""

_KEY_TABLES = ("gpu_timeline", "ops_summary_by_category", "ops_summary", "kernel_summary")
_OF_PROGRAMS = ("work_summary", *_KEY_TABLES)
"""The same of profiles of JAX that ran other programs, whose instructions have other numbers."""
_OF_FRAMEWORKS = ("gpu_timeline", "work_summary")
"""The same of runs of several frameworks, whose operations, their categories and kernels have other names."""


@dataclass(frozen=True)
class Baseline:
    """The run that a report is compared with.

    Attributes:
        names: what it and the trace are called.
        tables: its tables.
        notes: notes on it.
        command: what compares the two on the terminal; empty where one came through a pipe.
        shared_command: the same without the folders that files are in, for what goes elsewhere.
    """

    names: tuple[str, str]
    tables: Run
    notes: list[str]
    command: str = ""
    shared_command: str = ""

    def compared(self, tables: Run) -> dict[str, Table]:
        """The tables that say most of the baseline and of the trace, which are those given, joined."""
        return compared(self._runs(tables))

    def notes_on(self, tables: Run) -> list[str]:
        """Notes on the two."""
        from tracelens_graph.analyses.across.compare import lacked, notes_on_steps

        runs = self._runs(tables)
        without = [name for name in key_tables(runs) if lacked(runs)[name]]
        lacking = [f"{self.names[0]} has no {', '.join(without)}, which are not compared"] if without else []
        return [*self.notes, *lacking, *notes_on_steps(runs)]

    def change_text(self, tables: Run, width: int) -> str:
        """What changed, for the terminal."""
        from tracelens_graph.reports.comparison import verdict
        from tracelens_graph.utils.texts import printable, wrapped

        lines = ["", *verdict(self.compared(tables), self.names, width)]
        for note in self.notes_on(tables):
            lines += wrapped(printable(note), width, "  ")
        if self.command:
            lines.append(f"ask next: {self.command}")
        return "".join(f"{line}\n" for line in lines)

    def _runs(self, tables: Run) -> dict[str, Run]:
        return dict(zip(self.names, (self.tables, tables), strict=True))


def baseline_of(baseline: str, call: Call, options: ReportOptions) -> Baseline:
    """The run that a user names as the baseline of a report.

    Args:
        baseline: what was named.
        call: what was asked of the trace of the report.
        options: those of the report.
    """
    first, now = names_of([baseline, call.trace])
    found, notes = tables_of_run(first, baseline, call.window, options)
    if call.is_read_once or Call(baseline).is_read_once:
        return Baseline((first, now), found, notes)
    command = _command([baseline, call.trace], call)
    shared = _command(without_folders([baseline, call.trace]), call.without_folders())
    return Baseline((first, now), found, notes, command, shared)


def _command(runs: Sequence[str], call: Call) -> str:
    return call.complete(f"tracelens-graph compare {shlex.join(runs)}")


def tables_of_run(tag: str, run: str, window: WindowChoice, options: ReportOptions) -> tuple[Run, list[str]]:
    """The tables of what a user named, and notes on them.

    Args:
        tag: what to call it.
        run: a trace, a saved graph, a report in JSON, or a folder of tables.
        window: the part of the trace.
        options: those of the report.
    """
    is_chosen = replace(options, arch=None) != type(options)() or window != WindowChoice()
    if run != "-" and Path(run).is_dir():
        from tracelens_graph.stores.saved_reports import CsvTables

        note = f"{tag} is a folder of tables; options that choose events do not change it"
        return CsvTables(run), [note] if is_chosen else []
    from tracelens_graph.stores.saved_reports import JsonTables, is_report

    if run != "-" and is_report(run):
        tables = JsonTables(run)
        of = tables.window or "the whole trace"
        note = f"{tag} is a report on {of}; options that choose events do not change it"
        return tables, [note] if is_chosen or tables.window else []
    from tracelens_graph.analyses.report.report_tables import report_tables

    return report_tables(window.of(load(run), options.extension), options), []


def key_tables(runs: Mapping[str, Run]) -> tuple[str, ...]:
    """Names of the tables in which people look for what changed."""
    from tracelens_graph.analyses.across.outer_join import of_other_programs
    from tracelens_graph.analyses.report.report_tables import Tables

    if len({run.window.framework.name for run in runs.values() if isinstance(run, Tables)}) > 1:
        return _OF_FRAMEWORKS
    return _OF_PROGRAMS if of_other_programs(runs) else _KEY_TABLES


def compared(runs: Mapping[str, Run], every: bool = False) -> dict[str, Table]:
    """The tables of runs that say most, joined, each run against the first.

    Args:
        runs: name -> tables.
        every: all tables that can be compared. They are many, and those of models take as long as all others.
    """
    from tracelens_graph.analyses.across.compare import compare, lacked

    there = [name for name, without in lacked(runs).items() if not without]
    return compare(runs, tables=there if every else [name for name in key_tables(runs) if name in there] or there)


def judged(conditions: Sequence[gate.Condition], first: Run, last: Run) -> tuple[list[str], list[str]]:
    """Which conditions on changes hold of the last run against the first, and notes on the others."""
    remarks, met = [], []
    for condition in conditions:
        reading = _change(condition, gate.read(condition.figure, first), gate.read(condition.figure, last))
        if line := condition.judge(reading):
            met.append(line)
        elif reading.remark:
            remarks.append(f"{condition.name}: {reading.remark}")
    return remarks, met


def _change(condition: gate.Condition, first: gate.Reading, last: gate.Reading) -> gate.Reading:
    change = last.value - first.value
    if condition.suffix == "pct" and change:
        change = 100 * change / first.value if first.value else math.copysign(math.inf, change)
    sides = (("first run", first), ("last run", last))
    return gate.Reading(change, "; ".join(f"in the {side} {r.remark}" for side, r in sides if r.remark))
