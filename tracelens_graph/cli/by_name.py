"""Runs compared by the names of rows: `diff --by-name`."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.hints import Call, without_folders
from tracelens_graph.cli.options import Noise, check_name, refuse
from tracelens_graph.cli.outputs import Forms, Outputs
from tracelens_graph.cli.shown import TABLE, Shown, book, print_lines, print_table, screen
from tracelens_graph.cli.traces import check_pipes, load, names_of, say, traces_named
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.analyses.across.compare import Run
    from tracelens_graph.analyses.report.report_tables import ReportOptions
    from tracelens_graph.tables.table import Table

SUFFIXES = ("diff", "pct")
"""What a figure of a comparison ends with: the change in its own unit, or in percent."""

_ROWS_FOR_PEOPLE = 10
_ROWS_OF_ONE_TABLE = 30
_ONE_LINE = 10_000
"""Characters of a line that is not broken."""
_STRUCTURE = ("ops_summary", "kernel_summary")
_KEY_TABLES = ("gpu_timeline", "ops_summary_by_category", "ops_summary", "kernel_summary")
_OF_PROGRAMS = ("work_summary", *_KEY_TABLES)
"""The same of profiles of JAX that ran other programs, whose instructions have other numbers."""
_OF_FRAMEWORKS = ("gpu_timeline", "work_summary")
"""The same of runs of several frameworks, whose operations, their categories and kernels have other names."""


@dataclass(frozen=True)
class ByName:
    """Runs as tables, each joined with the first row by row.

    Attributes:
        runs: name -> tables, the run first that others are compared with.
        paths: what the user named, of each.
        call: what was asked of the traces.
        top: how many rows are asked for.
    """

    runs: Mapping[str, Run]
    paths: Sequence[str]
    call: Call
    top: int | None = None

    @cached_property
    def _key_names(self) -> tuple[str, ...]:
        """Names of the tables in which people look for what changed."""
        from tracelens_graph.analyses.across.outer_join import of_other_programs
        from tracelens_graph.analyses.report.report_tables import Tables

        if len({run.window.framework.name for run in self.runs.values() if isinstance(run, Tables)}) > 1:
            return _OF_FRAMEWORKS
        return _OF_PROGRAMS if of_other_programs(self.runs) else _KEY_TABLES

    @cached_property
    def _lacked(self) -> Mapping[str, Sequence[str]]:
        from tracelens_graph.analyses.across.compare import lacked

        return lacked(self.runs)

    @cached_property
    def key_tables(self) -> dict[str, Table]:
        """The tables that say most, joined."""
        from tracelens_graph.analyses.across.compare import compare

        there = self._there
        return compare(self.runs, tables=[name for name in self._key_names if name in there] or there)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """All tables, joined. They are many, and those of models take as long as all others."""
        from tracelens_graph.analyses.across.compare import compare, notes_on_lacked, notes_on_steps

        tables = compare(self.runs, tables=self._there)
        first = next(iter(tables.values()))
        first.notes = [*first.notes, *notes_on_lacked(self.runs), *notes_on_steps(self.runs)]
        return tables

    @property
    def _there(self) -> list[str]:
        return [name for name, without in self._lacked.items() if not without]

    @property
    def notes(self) -> list[str]:
        """Notes on the runs for who reads nothing but what changed."""
        from tracelens_graph.analyses.across.compare import notes_on_steps

        lacking: dict[str, list[str]] = {}
        for name in self._key_names:
            for tag in self._lacked[name]:
                lacking.setdefault(tag, []).append(name)
        texts = [f"{tag} has no {', '.join(names)}, which are not compared" for tag, names in lacking.items()]
        return [*texts, *notes_on_steps(self.runs)]

    def verdict(self, width: int) -> Iterator[str]:
        """How each run differs from the first, in lines."""
        from tracelens_graph.reports.comparison import verdict

        return verdict(self.key_tables, list(self.runs), width)

    def screen(self) -> Iterator[str]:
        """What changed, the tables that say most, and what to ask next."""
        from tracelens_graph.analyses.across.compare import notes_on_lacked, notes_on_steps
        from tracelens_graph.analyses.across.outer_join import NOTE, of_other_programs
        from tracelens_graph.reports.comparison import brief
        from tracelens_graph.utils.texts import printable, wrapped

        width = screen().width
        yield from self.verdict(width)
        if of_other_programs(self.runs):
            yield from wrapped(printable(NOTE), width, "  ")
        remarks = {NOTE}
        of_runs = tuple(f"{tag}: " for tag in self.runs)
        on_all = [*notes_on_lacked(self.runs), *notes_on_steps(self.runs)]
        for name, table in self.key_tables.items():
            shown = brief(replace(table, notes=[*table.notes, *on_all]), list(self.runs))
            on_all = []
            shown.notes = [note for note in shown.notes if note not in remarks]
            remarks.update(note for note in shown.notes if note.startswith(of_runs))
            rows = (0, 0) if name == "gpu_timeline" else (self.top, _ROWS_FOR_PEOPLE)
            yield ""
            yield from Shown(shown, *rows, way_out=f"--table {name} -f csv").text().splitlines()
        if rest := [name for name in self._there if name not in self._key_names]:
            yield ""
            yield from wrapped(f"more with --table: {', '.join(rest)}", width, "  ")
        if by_structure := self._by_structure():
            yield f"ask next: {by_structure}"

    def _by_structure(self) -> str:
        """The command that aligns the call trees, where runs have other calls and all are traces; else ""."""
        from tracelens_graph.analyses.report.report_tables import Tables

        are_traces = all(isinstance(run, Tables) for run in self.runs.values()) and "-" not in self.paths
        return self._command("") if are_traces and _differ_in_structure(self.key_tables) else ""

    def _command(self, options: str = " --by-name", shared: bool = False) -> str:
        """The command that compares them once more; "" where one came through a pipe.

        Args:
            options: options of it.
            shared: whether it goes elsewhere, and names files without the folders that they are in.
        """
        if self.call.is_read_once or any(Call(path).is_read_once for path in self.paths):
            return ""
        call, paths = (self.call.without_folders(), without_folders(self.paths)) if shared else (self.call, self.paths)
        return call.complete(f"tracelens-graph diff {shlex.join(paths)}{options}")

    def comment(self) -> str:
        """What changed, for a pull request."""
        from tracelens_graph.reports.comment import change_comment

        rows = _ROWS_FOR_PEOPLE if self.top is None else self.top
        return change_comment(list(self.runs), self.key_tables, self.notes, self._command(shared=True), rows)

    def json(self) -> str:
        """All tables for programs."""
        from tracelens_graph.reports.document import document_json

        about = {
            "headline": [line.strip() for line in self.verdict(_ONE_LINE)],
            "notes": [*self.notes],
            "runs": list(self.runs),
        }
        return document_json(about, self.tables)

    def one_table(self, name: str, is_brief: bool) -> Table:
        """One table, joined; for people its main columns and the rows that differ."""
        from tracelens_graph.analyses.across.compare import compare
        from tracelens_graph.reports.comparison import brief

        table = compare(self.runs, tables=[name])[name]
        return brief(table, list(self.runs)) if is_brief else table

    def judged(self, conditions: Sequence[gate.Condition], noise: Noise) -> tuple[list[str], list[str]]:
        """Notes on conditions on changes, and which hold of the last run against the first."""
        from tracelens_graph.analyses.report.report_tables import Tables

        first, *_, last = self.runs.values()

        def reading(condition: gate.Condition) -> gate.Reading:
            if noise is Noise.on and (remark := _noise(condition.figure, first, last)):
                return gate.Reading(0.0, remark)
            return _change(condition, gate.read(condition.figure, first), gate.read(condition.figure, last))

        notes, met = gate.judged(conditions, reading)
        saved = [tag for tag, run in self.runs.items() if (run is first or run is last) and not isinstance(run, Tables)]
        if noise is Noise.on and saved and any(gate.time_behind(one.figure) for one in conditions):
            notes.append(f"saved tables do not hold how much times vary ({', '.join(saved)}): any change counts")
        return notes, met


FORMS: Forms = {"json": ByName.json, "md": ByName.comment, "xlsx": book(lambda runs: runs.tables)}


def _change(condition: gate.Condition, first: gate.Reading, last: gate.Reading) -> gate.Reading:
    change = last.value - first.value
    if condition.suffix == "pct" and change:
        change = 100 * change / first.value if first.value else math.copysign(math.inf, change)
    sides = (("first run", first), ("last run", last))
    return gate.Reading(change, "; ".join(f"in the {side} {r.remark}" for side, r in sides if r.remark))


def _noise(figure: gate.Figure, first: Run, last: Run) -> str:
    """That the time behind a figure changed by less than its noise; empty if not, and where only tables are left."""
    from tracelens_graph.analyses.across.margins import margin_ms
    from tracelens_graph.analyses.report.report_tables import Tables

    of_time = gate.time_behind(figure)
    if of_time is None or not (isinstance(first, Tables) and isinstance(last, Tables)):
        return ""
    margin = margin_ms((first.window, last.window), figure.table, figure.rows)
    change = gate.read(of_time, last).value - gate.read(of_time, first).value
    if not margin or not 0 < abs(change) <= margin:
        return ""
    return f"a change of {change:+,.3f} ms is within noise (up to {margin:,.3f} ms) and counts as 0"


def _differ_in_structure(tables: Mapping[str, Table]) -> bool:
    """Whether runs have other ops or kernels, or other numbers of calls: what they call differs, not only its time."""
    for name in _STRUCTURE:
        if name not in tables:
            continue
        counts = [cells for column, cells in tables[name].columns.items() if re.fullmatch(r"Count__.*_diff", column)]
        if any(tables[name]["only_in"]) or any(cell for cells in counts for cell in cells):
            return True
    return False


# --- runs ------------------------------------------------------------------------------------------------------------


def are_tables(run: str) -> bool:
    """Whether a user named tables that were written earlier: a report in JSON, or a folder of CSV files."""
    from tracelens_graph.stores.saved_reports import is_report

    return run != "-" and (any(Path(run).glob("*.csv")) if os.path.isdir(run) else is_report(run))


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
        from tracelens_graph.stores.saved_reports import csv_tables

        note = f"{tag} is a folder of tables; options that choose events do not change it"
        return csv_tables(run), [note] if is_chosen else []
    from tracelens_graph.stores.saved_reports import JsonTables, is_report

    if run != "-" and is_report(run):
        tables = JsonTables(run)
        of = tables.window or "the whole trace"
        note = f"{tag} is a report on {of}; options that choose events do not change it"
        return tables, [note] if is_chosen or tables.window else []
    from tracelens_graph.analyses.report.report_tables import report_tables

    return report_tables(window.of(load(run), options.extension), options), []


def _runs_named(arguments: Sequence[str]) -> list[str]:
    """The runs: a folder of tables is one, a folder of traces or a pattern stands for the files in it."""
    runs: list[str] = []
    for one in arguments:
        is_folder = os.path.isdir(one) and not are_tables(one)
        runs += traces_named([one]) if is_folder or (has_magic(one) and not os.path.exists(one)) else [one]
    return runs


def _opened(
    named: Sequence[str], names: str | None, call: Call, options: ReportOptions, top: int | None
) -> ByName:  # fmt: skip
    """The runs that can be read: whatever else lies in a folder of traces is passed over."""
    from tracelens_graph.errors import NotATraceError, TraceError
    from tracelens_graph.loading.files import left_out_note

    paths = _runs_named(named)
    if len(paths) < 2:
        raise typer.BadParameter("name at least two runs")
    check_pipes(paths)
    runs: dict[str, Run] = {}
    read, others = [], []
    for tag, path in zip(names_of(paths, names), paths, strict=True):
        try:
            runs[tag], remarks = tables_of_run(tag, path, call.window, options)
        except NotATraceError:
            if path in named:
                raise
            others.append(path)
            continue
        read.append(path)
        say(f"note: {line}" for line in remarks)
    say(left_out_note(others))
    if len(runs) < 2:
        raise TraceError("fewer than two of the files are traces that can be read")
    return ByName(runs, read, replace(call, trace=read[0]), top)


# --- the command -----------------------------------------------------------------------------------------------------


def answer_by_name(
    named: Sequence[str], names: str | None, call: Call, options: ReportOptions, table: str | None, top: int | None,
    outputs: Outputs, is_theirs: bool, fail_if: Sequence[str], noise: Noise,
) -> None:  # fmt: skip
    """Answer `diff --by-name`.

    Args:
        named: the runs.
        names: what the user calls them; None to go by files.
        call: what was asked of each.
        options: what tables hold.
        table: the one that is asked for; None for all.
        top: how many rows are asked for.
        outputs: where the answer goes.
        is_theirs: whether tables are those of TraceLens.
        fail_if: conditions.
        noise: whether changes within noise count as none.
    """
    _check_output(table, outputs, is_theirs)
    conditions = _conditions(fail_if, options)
    runs = _opened(named, names, call, options, top)
    if is_theirs:
        _write_as_tracelens(runs, table, outputs)
    elif table is not None:
        shown = runs.one_table(table, {"csv", "json", "xlsx"}.isdisjoint(outputs.formats))
        print_table(Shown(shown, top, _ROWS_OF_ONE_TABLE), outputs)
    else:
        if outputs.to_screen:
            print_lines(runs.screen())
        elif not outputs.formats:
            print_lines(runs.verdict(screen().width))
        outputs.write(runs, FORMS, lambda: _by_file(runs.tables))
    gate.conclude(*runs.judged(conditions, noise))


def _check_output(table: str | None, outputs: Outputs, is_theirs: bool) -> None:
    refuse(
        (table is not None and outputs.folder, "--csv writes all tables, --table prints one: give one of them"),
        (is_theirs and table is None and not outputs.folder, "--layout tracelens needs --csv or --table"),
    )
    if table is None:
        outputs.check(() if is_theirs else FORMS, "a comparison by name (--table NAME chooses a table)")
    else:
        outputs.check(TABLE, "a table", has_folder=False)
    if table is not None and not is_theirs:
        from tracelens_graph.analyses.across.compare import can_be_compared
        from tracelens_graph.registry import HOMES

        refuse(
            (table in HOMES and table.startswith("diff_"),
             f"--table compares tables of reports: without it, --csv DIR of two traces writes {table}"),
        )  # fmt: skip
        if not can_be_compared(table):
            check_name("--table", table, dict.fromkeys(filter(can_be_compared, HOMES)))


def _conditions(texts: Sequence[str], options: ReportOptions) -> list[gate.Condition]:
    way = "that is a figure of a comparison by structure, which needs two traces, and neither --by-name nor --table"
    conditions = gate.parse(texts, SUFFIXES, options, elsewhere=gate.Elsewhere(gate.figures_of_diff(), (), way))
    for condition in conditions:
        if not condition.suffix:
            raise typer.BadParameter(
                f"--fail-if {condition.name!r}: a comparison has two values of it; ask for {condition.name}:diff or "
                f"{condition.name}:pct, the change of the last run against the first"
            )
    return conditions


def _write_as_tracelens(runs: ByName, name: str | None, outputs: Outputs) -> None:
    from tracelens_graph.compat.compare import compare_as_tracelens

    tables = compare_as_tracelens(runs.runs)
    if name is None:
        outputs.write(None, {}, lambda: _by_file(tables))
        return
    check_name("--table", name, tables)
    print_table(Shown(tables[name], runs.top, _ROWS_OF_ONE_TABLE), outputs)


def _by_file(tables: Mapping[str, Table]) -> dict[str, Table]:
    """Tables by the names of their files."""
    files = {re.sub(r"[^\w.-]", "_", name, flags=re.ASCII): table for name, table in tables.items()}
    if len(files) < len(tables):
        raise typer.BadParameter("--names: as parts of file names, two of them are one")
    return files
