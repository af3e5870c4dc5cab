"""What `tracelens-graph report` answers of one trace: with times, as TraceLens lays it out, or of calls alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import typer

from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import architecture_of
from tracelens_graph.cli.outputs import Forms
from tracelens_graph.cli.shown import Screen, Shown, book, no_hints
from tracelens_graph.cli.traces import load, warn
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.errors import AnalysisError
from tracelens_graph.utils.suggest import did_you_mean, hint, there_are

if TYPE_CHECKING:
    from tracelens_graph.analyses.diagnosis.finding import Finding
    from tracelens_graph.analyses.report.report_tables import ReportOptions, Tables
    from tracelens_graph.cli.gate import Condition
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.reports.document import Facts
    from tracelens_graph.tables.table import Table

ROWS_FOR_PEOPLE = 10
_TOP_OPS = 5
"""Ops on the first screen."""
_OF_HOST = ("host_times", "host_lines")
"""Tables on the first screen of a trace without GPU events."""
_COLUMNS_NAMED = 12


@dataclass(frozen=True)
class Asked:
    """What is asked of each trace; may be sent to another process.

    Attributes:
        options: what the tables hold.
        window: the part of the trace.
        extensions: the user's extensions.
        arch: the device that is named.
        et: the execution trace of the same run.
        compare_with: another trace, whose times are added to tables.
        tables: tables that are asked for by name; empty for the report.
        everything: whether all tables are printed.
        sort: column by which tables are sorted.
        top: rows of tables.
        is_theirs: whether tables are those of TraceLens's report.
        outside: what lies outside of the steps, where these were chosen because of it.
    """

    options: ReportOptions
    window: WindowChoice
    extensions: list[str]
    arch: str | None
    et: str | None
    compare_with: str | None
    tables: list[str]
    everything: bool
    sort: str | None
    top: int | None
    is_theirs: bool
    outside: tuple[Finding, ...] = ()

    def of_steps(self, core: Core) -> Asked:
        """The same of the steps alone, where nothing was chosen and the file begins with work of the step before.

        What lies outside is one more finding then.
        """
        is_chosen = self.window != WindowChoice() or self.options.extension or self.compare_with is not None
        if is_chosen or not core.framework.has_times:
            return self
        from tracelens_graph.analyses.diagnosis.outside_steps import steps_alone
        from tracelens_graph.graph.window import whole_window

        found = steps_alone(whole_window(core))
        return self if found is None else replace(self, window=WindowChoice(step=found[0]), outside=(found[1],))

    @property
    def rows(self) -> int:
        """Rows of a table that people see; 0 for all."""
        return ROWS_FOR_PEOPLE if self.top is None else self.top

    def call(self, trace: str) -> Call:
        """What was asked of a trace, for commands that follow."""
        return Call(trace, self.window, self.extensions, self.et, self.arch)


class Answer:
    """Tables of a trace by name, and what is shown of them.

    Attributes:
        w: the trace, or a part of it.
    """

    forms: ClassVar[Forms] = {}
    """Formats of the whole answer."""

    def __init__(self, w: Window, asked: Asked, trace: str) -> None:
        self.w = w
        self._asked = asked
        self._call = asked.call(trace)

    @property
    def tables(self) -> Mapping[str, Table]:
        """All tables, in their order."""
        raise NotImplementedError

    @cached_property
    def chosen(self) -> Mapping[str, Table]:
        """The tables that are asked for, sorted as they are asked for."""
        tables = {name: self.tables[name] for name in self._asked.tables} if self._asked.tables else self.tables
        return tables if self._asked.sort is None else _sorted(tables, self._asked.sort)

    @property
    def files(self) -> Mapping[str, Table]:
        """The tables as they stand in a folder of files."""
        return self.chosen

    def shown(self, table: Table) -> Shown:
        """A table as it is shown."""
        from tracelens_graph.reports.views import view

        core = self.w.core
        hints = self._call.to_open if core.framework.has_times else no_hints
        return Shown(table, self._asked.top, ROWS_FOR_PEOPLE, lambda one: view(one, core), hints)

    def text(self, of: Screen) -> str:
        """What is printed."""
        return "\n".join(self.shown(table).text(of) for table in self.chosen.values())

    def judged(self, conditions: Sequence[Condition]) -> tuple[list[str], list[str]]:
        """Notes on conditions, and which are met."""
        from tracelens_graph.cli import gate

        return gate.of_tables(conditions, self.tables if conditions else {})


def answer_of(core: Core, trace: str, asked: Asked, processes: int | None = None) -> Answer:
    """The answer on a trace.

    Args:
        core: its graph.
        trace: what the user named.
        asked: what is asked.
        processes: how many load another trace that is asked for.

    Raises:
        AnalysisError: there is no such table.
    """
    if not core.framework.has_times:
        return Calls(core, asked, trace)
    options = asked.options
    if options.models and asked.arch in (None, "auto"):
        options = replace(options, arch=_arch_of(core, warns=asked.arch is not None))

    def part(of: Core) -> Window:
        return asked.window.of(options.extension.processed(of) if options.extension else of)

    w = part(core)
    if asked.compare_with is not None:
        other = load(asked.compare_with, processes=processes, wants_gpu=True)
        options = replace(options, compare_with=part(other))
    from tracelens_graph.analyses.report.report_tables import report_tables

    tables = report_tables(w, options)
    return (Theirs if asked.is_theirs else Report)(tables, asked, trace)


def _arch_of(core: Core, warns: bool) -> Architecture | None:
    """The device that a trace was recorded on, None if it is not known; a warning says why where it was asked for."""
    try:
        return architecture_of(core, None)
    except AnalysisError as error:
        if warns:
            warn([str(error)])
        return None


def _sorted(tables: Mapping[str, Table], column: str) -> dict[str, Table]:
    from tracelens_graph.reports.views import column_named, for_people, sort
    from tracelens_graph.tables.column import headings

    found = {name: column_named(table, column) for name, table in tables.items()}
    if not any(found.values()):
        shown = dict.fromkeys(
            heading for table in tables.values() if for_people(table) for heading in headings(table.about).values()
        )
        there = dict.fromkeys(name for table in tables.values() for name in table.columns)
        meant = did_you_mean(column, [*shown, *there]) or there_are(shown or there, _COLUMNS_NAMED)
        raise typer.BadParameter(f"--sort: no table has a column {column!r}; {meant}")
    return {name: sort(table, by) if (by := found[name]) else table for name, table in tables.items()}


class Report(Answer):
    """The report on a trace with times."""

    def __init__(self, tables: Tables, asked: Asked, trace: str) -> None:
        super().__init__(tables.window, asked, trace)
        self._every = tables
        self._trace = trace
        for name in asked.tables:
            self._check(name)

    def _check(self, name: str) -> None:
        from tracelens_graph.registry import REPORT

        if name in REPORT or name in self._every:
            return
        extension = self._every.options.extension
        if extension and extension.table_sets:
            raise AnalysisError(f"there is no table {name!r}; {hint(name, self._every)}")
        part = "window" if self.w.title else "trace"
        raise AnalysisError(f"no op of the {part} belongs in the table {name}")

    @property
    def tables(self) -> Mapping[str, Table]:
        """All tables, in their order."""
        return self._every

    @cached_property
    def findings(self) -> list[Finding]:
        """The verdict."""
        from tracelens_graph.analyses.diagnosis.verdict import verdict

        return [*verdict(self.w, self._every.options.arch), *self._asked.outside]

    @cached_property
    def about(self) -> Facts:
        """What there is to say of the trace."""
        from tracelens_graph.reports.document import facts

        return facts(self.w, self._every.options.as_values())

    def text(self, of: Screen) -> str:
        """The tables that are asked for, all of them, or the first screen."""
        if self._asked.tables:
            return super().text(of)
        if not self._asked.everything:
            return self._on_pipes() + self._first_screen(of) + self._to_see_it()
        from tracelens_graph.reports.report_text import all_tables

        call, rows = self._call, self._asked.rows
        every = all_tables(
            self.w.core, self.about, self.findings, self.chosen, call.complete, call.to_open, rows, *of
        )  # fmt: skip
        return self._on_pipes() + every + self._to_see_it()

    def _to_see_it(self) -> str:
        """The last lines of a report on the screen: the commands that explain its findings, and that make its page."""
        # The page is of the same steps by itself.
        call = replace(self._call, window=WindowChoice()) if self._asked.outside else self._call
        wins = [one for one in self.findings if one.evidence.get("could_win_ms")]
        so = "; wins overlap, and do not add up" if len(wins) > 1 and not self._asked.everything else ""
        explained = f"what is behind each finding{so}: {self._call.complete('tracelens-graph explain TRACE')}\n"
        return f"{explained}see it: {call.complete('tracelens-graph report TRACE -o report.html')}\n"

    def _first_screen(self, of: Screen) -> str:
        from tracelens_graph.analyses.diagnosis.account import time_spent
        from tracelens_graph.analyses.diagnosis.families import families_of
        from tracelens_graph.analyses.diagnosis.thresholds import GRAPH_PERCENT
        from tracelens_graph.reports.report_text import first_screen

        top, call = self._asked.top, self._call
        most = _TOP_OPS if top is None else top or len(self.w.core.names)
        if len(self.w.gpu_rows):
            from tracelens_graph.analyses.ops.top_ops import top_ops

            found = top_ops(self.w, self._asked.options.linked_only, most)
            largest = [found if len(found) else self._first_rows(self._every["kernel_summary"], most)]
            shown = self.w.core, found["uid"], f"--top {len(found)}", found["percent"]
            replay = call.to_replay(*shown) if _uses_gpu(self.findings) else []
            is_replay = families_of(self.w).graph_percent >= GRAPH_PERCENT
            joined = call.to_join(self.w, is_replay)
            hints = [*joined, *call.to_repeats(self.w.core), *replay, *call.to_open(found)]
        else:
            largest = self._host_tables(most)
            hints = [line for table in largest[:1] for line in call.to_open(table)]
        return first_screen(
            self.about, self.findings, time_spent(self.w), largest, self._left_out(), call.complete, hints, *of
        )  # fmt: skip

    def _host_tables(self, most: int) -> list[Table]:
        """The most expensive ops and lines of a trace without GPU events; of one without times, who holds memory."""
        if self.w.framework.calls_take_time:
            tables = [self._every[name] for name in _OF_HOST]
        else:
            from tracelens_graph.analyses.memory.holders import memory_peak
            from tracelens_graph.analyses.memory.peak import memory_summary

            tables = [memory_summary(self.w), memory_peak(self.w)]
        return [self._first_rows(table, most) for table in tables if len(table)]

    def _first_rows(self, table: Table, most: int) -> Table:
        from tracelens_graph.reports.views import top, view

        return view(top(table, most), self.w.core)

    def _left_out(self) -> list[str]:
        """What there is beside the first screen. Which ops have models is not asked: that would cost time."""
        every = self._every
        names = [*every.built_in, *every.of_extension]
        # Most tables are of GPU work; what is left costs little. Tables of a comparison refuse traces without.
        if not len(self.w.gpu_rows) and self._asked.compare_with is None:
            host = self.w.framework.calls_take_time
            return [name for name in names if host and name not in _OF_HOST and len(every[name])]
        return [*names, "a table for each family of ops"] if every.options.models else names

    def _on_pipes(self) -> str:
        """What commands below read where the trace cannot be read again; nothing elsewhere."""
        from tracelens_graph.loaders.sources import is_stream
        from tracelens_graph.loading.fused import whole_of

        if (whole := whole_of(self._trace)) is not None:
            file, rank = whole
            save = shlex.join(["tracelens-graph", "save", file, "--rank", str(rank), "-o", f"rank{rank}.tlg"])
            return f"Commands below read rank{rank}.tlg, which this makes: {save}\n"
        if not is_stream(self._trace):
            return ""
        return (
            "TRACE in commands below stands for a file, which this makes of a pipe: tracelens-graph save - -o x.tlg\n"
        )

    def json(self) -> str:
        """The report for programs."""
        from tracelens_graph.analyses.diagnosis.account import time_spent
        from tracelens_graph.analyses.diagnosis.outside_steps import whole_note
        from tracelens_graph.analyses.opportunities.opportunities import opportunities
        from tracelens_graph.reports.document import report_json

        findings = [replace(one, ask_next=self._call.complete(one.ask_next)) for one in self.findings]
        others = [time_spent(self.w), opportunities(self.w, self._every.options.arch)]
        return report_json(findings, self.chosen, self.about, others, whole_note(self.w))

    def comment(self) -> str:
        """The report as a comment on GitHub."""
        from tracelens_graph.analyses.diagnosis.families import op_advice
        from tracelens_graph.analyses.memory.peak import memory_over_time, memory_summary
        from tracelens_graph.analyses.ops.top_ops import top_ops
        from tracelens_graph.reports.comment import report_comment
        from tracelens_graph.reports.document import peaks

        w, linked_only = self.w, self._asked.options.linked_only
        largest = top_ops(w, linked_only, _TOP_OPS)
        advice = op_advice(w, self.findings, largest["name"], linked_only, self._every.options.arch)
        return report_comment(
            w.core, self.findings, largest, advice, self.chosen,
            self.about, self._call.without_folders().complete, self._asked.rows,
            peaks(memory_summary(w)) if memory_over_time(w) else (),
        )  # fmt: skip

    def page(self) -> str:
        """The report as a page for a browser, of the steps alone where the first screen is."""
        from tracelens_graph.analyses.report.report_tables import report_tables
        from tracelens_graph.reports.html.report import report_page

        if (asked := self._asked.of_steps(core := self.w.core)) is not self._asked:
            tables = report_tables(asked.window.of(core), self._every.options)
            return Report(tables, asked, self._trace).page()
        complete = self._call.without_folders().complete
        return report_page(self.w, self.findings, self.chosen, self.about, complete, self._every.options.arch)


_BOOK = book(lambda answer: answer.chosen)
Report.forms = {"json": Report.json, "md": Report.comment, "html": Report.page, "xlsx": _BOOK}


class Theirs(Report):
    """The sheets of TraceLens's report."""

    forms: ClassVar[Forms] = {"xlsx": _BOOK}

    def _check(self, name: str) -> None:
        if name not in self._sheets:
            raise AnalysisError(f"TraceLens's report of this trace has no sheet {name!r}; {hint(name, self._sheets)}")

    @cached_property
    def _sheets(self) -> dict[str, Table]:
        from tracelens_graph.compat.sheets import Asked as AskedOfTheirs
        from tracelens_graph.compat.sheets import sheets

        o = self._every.options
        if self.w.framework.compiles_programs and (unknown := _beyond_default(o)):
            warn([f"TraceLens's report of JAX has no option like {', '.join(unknown)}: left out"])
        return sheets(
            self.w,
            AskedOfTheirs(
                replace(o, linked_only=True, overlap=False, call_stack=False),
                call_stack=True, python_frames=o.call_stack, overlap=o.overlap, kernels=True,
                short=o.short_kernels_us is not None, inference=o.by_module or bool(self.w.core.info.replays),
            ),
        )  # fmt: skip

    @property
    def tables(self) -> Mapping[str, Table]:
        """All sheets, in their order."""
        return self._sheets

    @property
    def files(self) -> Mapping[str, Table]:
        """The sheets with cells spelled as Python does."""
        from tracelens_graph.compat.cells import in_python

        return {name: in_python(table) for name, table in self.chosen.items()}

    def text(self, of: Screen) -> str:
        """All sheets that are asked for."""
        return Answer.text(self, of)

    def judged(self, conditions: Sequence[Condition]) -> tuple[list[str], list[str]]:
        """Notes on conditions, which are on our tables, and which are met."""
        from tracelens_graph.cli import gate

        return gate.of_tables(conditions, self._every if conditions else {})


_OF_EVERY_PROFILE = ("linked_only", "models", "histogram_bins", "arch", "extension")
"""Options that do not change which sheets there are, or are not asked for by name."""


def _uses_gpu(findings: Sequence[Finding]) -> bool:
    """Whether work of the GPU, communication too, may be what bounds a run: not where the headline names the host."""
    evidence = findings[0].evidence
    kinds = [str(evidence[name]) for name in ("first", "second") if name in evidence] or [str(evidence["kind"])]
    return not all(kind.startswith("host.") for kind in kinds)


def _beyond_default(options: ReportOptions) -> list[str]:
    """Options that were given, as they are spelled."""
    given = [f for f in fields(options) if getattr(options, f.name) != f.default and f.name not in _OF_EVERY_PROFILE]
    spelled = [f"{'add ' * (f.default is False and f.name != 'recompute')}{f.name.removesuffix('_us')}" for f in given]
    return [f"--{one.replace('_', '-')}" for one in spelled]


class Calls(Answer):
    """The report on an execution trace alone, which counts calls.

    Raises:
        NoTimesError: something is asked for that needs times.
    """

    def __init__(self, core: Core, asked: Asked, trace: str) -> None:
        from tracelens_graph.reports.calls_text import CALL_TABLES

        of_times = [name for name in asked.tables if name not in CALL_TABLES]
        if of_times or asked.is_theirs or asked.compare_with:
            core.info.check_times()
        super().__init__(asked.window.of(core), asked, trace)

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """All tables, in their order."""
        from tracelens_graph.reports.calls_text import CALL_TABLES

        return {name: make(self.w) for name, make in CALL_TABLES.items()}

    def text(self, of: Screen) -> str:
        """The tables that are asked for, or the screen."""
        if self._asked.tables:
            return super().text(of)
        from tracelens_graph.reports.calls_text import calls_screen

        return calls_screen(self.w, list(self.chosen.values()), self._asked.rows, *of)

    def judged(self, conditions: Sequence[Condition]) -> tuple[list[str], list[str]]:
        """Nothing: conditions are on times.

        Raises:
            NoTimesError: there are conditions.
        """
        if conditions:
            self.w.core.info.check_times()
        return [], []

    def json(self) -> str:
        """The report for programs."""
        from tracelens_graph.reports.document import laid_out, objects, sound

        info = self.w.core.info
        about = {
            "source": info.source, "events": info.events, "nodes": len(self.w.core.columns), "has_times": False,
        }  # fmt: skip
        return laid_out({"trace": sound(about), "tables": objects(self.chosen)}, 4) + "\n"


Calls.forms = {"json": Calls.json}
