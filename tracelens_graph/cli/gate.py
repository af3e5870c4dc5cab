"""`--fail-if`: conditions on figures of a report, so that a job of continuous integration can fail on them.

A figure is a cell of a table: `idle_percent`, `category:GEMM:ms`, `op:aten::mm:count`. Conditions are read before a
trace is loaded, so that a slip of the pen costs no time.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import typer

from tracelens_graph.utils.suggest import did_you_mean, there_are

if TYPE_CHECKING:
    from tracelens_graph.analyses.report.report_tables import ReportOptions
    from tracelens_graph.graph.ranks import Ranked
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.tables.table import Table

FAILED = 3
"""Exit code of a command one of whose conditions is met."""

_OPERATORS = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_WORST = {">": max, ">=": max, "<": min, "<=": min}
"""Operator -> which of several values is the likeliest to meet a condition."""
_CONDITION = re.compile(r"(?P<figure>.*?)\s*(?P<operator>[<>=!]+)\s*(?P<number>[^<>=!]*)", re.DOTALL)

_TIMELINE = "gpu_timeline"
_UNLINKED = "unlinked_percent"
_RANK = "rank:"
_AUTOGRAD = "autograd::engine::evaluate_function: "
_LISTED = 3
"""Rows within noise that are named at most."""

_NOISE = "noise"
"""In the column `proof` of a table of changes: nothing shows that it is more than noise."""


@dataclass(frozen=True)
class Figure:
    """A number in a report.

    Attributes:
        text: how it is called.
        table: name of the table that it stands in.
        key: column of that table in which its row is looked for.
        rows: what stands there; the figure is the sum over the rows found, or the worst of them where they do not add
            up. Empty for all rows.
        column: column of the number.
        may_lack: whether a row that is not there is known to count as 0, and is no slip.
    """

    text: str
    table: str
    key: str
    rows: tuple[str, ...]
    column: str
    may_lack: bool = False


class Figures(NamedTuple):
    """The figures that conditions can be on.

    Attributes:
        fixed: those of fixed rows, by their names.
        named: what a row is called in a figure -> the table that it stands in.
        has_unlinked: whether the share of GPU time without a launch is one.
    """

    fixed: Mapping[str, Figure]
    named: Mapping[str, str]
    has_unlinked: bool = False


class Reading(NamedTuple):
    """The value of a figure, NaN if it is not known, notes on it, and which of several rows it is of."""

    value: float
    remark: str = ""
    row: str = ""


@dataclass(frozen=True)
class Condition:
    """A figure, an operator and a number; a suffix says which value of the figure is meant where there are several."""

    figure: Figure
    suffix: str
    operator: str
    number: float

    @property
    def name(self) -> str:
        """The figure with its suffix."""
        return f"{self.figure.text}:{self.suffix}" if self.suffix else self.figure.text

    def judge(self, reading: Reading) -> str | None:
        """The line that says that the condition is met, or that nobody knows; None if it is not met."""
        remark = "; ".join(filter(None, (reading.row, reading.remark)))
        remark = f" ({remark})" if remark else ""
        if math.isnan(reading.value):
            return f"{self.name} is not known{remark}, so {self.operator} {self.number:.15g} cannot be ruled out"
        holds = _OPERATORS[self.operator]
        if not holds(reading.value, self.number):
            return None
        value = f"{reading.value:.6g}"
        if not holds(float(value), self.number):
            value = repr(reading.value)
        return f"{self.name} is {value}{remark}, which is {self.operator} {self.number:.15g}"


class Elsewhere(NamedTuple):
    """Figures that a command has when it is asked otherwise, what may follow them, and how to ask for them."""

    figures: Figures
    suffixes: Sequence[str]
    way: str


def parse(
    texts: Sequence[str], suffixes: Sequence[str] = (), options: ReportOptions | None = None,
    of: Figures | None = None, elsewhere: Elsewhere | None = None,
) -> list[Condition]:  # fmt: skip
    """Conditions from the command line, each `FIGURE OPERATOR NUMBER`.

    Args:
        texts: the conditions.
        suffixes: what may follow a figure after a colon.
        options: those of the report; figures that it will not have are refused.
        of: what figures there are; None for those of a report.
        elsewhere: others, which are refused with the way to ask for them.

    Raises:
        typer.BadParameter: the figure, the operator or the number is none.
    """
    found = []
    for text in texts:
        try:
            found.append(_condition(text, suffixes, options, of))
        except typer.BadParameter:
            if elsewhere is None or not _is_condition(text, elsewhere):
                raise
            raise _refused(text, elsewhere.way) from None
    return found


def _is_condition(text: str, of: Elsewhere) -> bool:
    try:
        _condition(text, of.suffixes, None, of.figures)
    except typer.BadParameter:
        return False
    return True


def read(figure: Figure, tables: Mapping[str, Table], operator: str = "") -> Reading:
    """The value of a figure. An op or a category that is not in the trace has the value 0.

    Several rows add up; of rates, means and the like the one counts that is the likeliest to meet a condition.

    Args:
        figure: which one.
        tables: where it is looked for.
        operator: that of the condition.
    """
    table = tables.get(figure.table)
    if table is None or not {figure.key, figure.column} <= set(table.columns):
        return Reading(math.nan, f"there is no table {figure.table} with {figure.key!r} and {figure.column!r}")
    keys = list(table[figure.key])
    found = [
        cell for key, cell in zip(keys, table[figure.column], strict=True) if not figure.rows or key in figure.rows
    ]
    if figure.table == _TIMELINE and len(set(keys)) < len(keys):
        return Reading(math.nan, "the timeline is split by recomputation")
    if not found and figure.table == "slowdown":
        return Reading(math.nan, "; ".join(table.notes))
    if not found and figure.table == _TIMELINE:
        return Reading(math.nan, "the timeline has no such row" if keys else "there are no GPU events")
    if not found and figure.text != _UNLINKED and not figure.may_lack:
        (name,) = figure.rows
        if figure.table == "diff_places" and (inner := name.removeprefix(_AUTOGRAD)) != name and inner in keys:
            reading = read(replace(figure, rows=(inner,)), tables, operator)
            return reading._replace(remark="; ".join(filter(None, (f"part of place {inner!r}", reading.remark))))
        meant = did_you_mean(name, keys)
        return Reading(0.0, f"{name!r} is not in the trace and counts as 0{meant and f'; {meant}'}")
    values = [math.nan if cell is None else float(cell) for cell in found]
    noise = _within_noise(table, figure)
    values = [0.0 if text else value for value, text in zip(values, noise, strict=True)]
    named = [text for text in noise if text][:_LISTED]
    remark = f"{', '.join(named)}: within noise, which counts as 0 (--noise off counts it)" if named else ""
    about = table.about.get(figure.column)
    if len(values) < 2 or about is None or about.adds_up:
        value = sum(values)
        return Reading(value, "it is not a number" if math.isnan(value) else remark)
    known = [value for value in values if not math.isnan(value)]
    if not known or operator not in _WORST:
        return Reading(math.nan, f"{len(values):,} rows have it, and they do not add up")
    if len(figure.rows) > 1:
        worst = _WORST[operator](known)
        return Reading(worst, remark if all(noise) else "", figure.rows[values.index(worst)])
    return Reading(
        _WORST[operator](known), f"the {'least' if _WORST[operator] is min else 'most'} of {len(known):,} rows"
    )


def time_behind(figure: Figure) -> Figure | None:
    """The time in ms that a figure of times is, or a share of; None for a count."""
    fields = _fields(figure.table)
    if "ms" not in fields or figure.column == fields.get("count") or figure.text == _UNLINKED:
        return None
    return replace(figure, column=fields["ms"])


def _within_noise(table: Table, figure: Figure) -> list[str]:
    """The change, with its interval, of each row of a figure that is within noise; "" for other rows."""
    found = []
    for row in table.records():
        if not figure.rows or row[figure.key] in figure.rows:
            change = f" {row['change_ms']:+,.3f} ms" if row.get("change_ms") is not None else ""
            low, high = row.get("low_ms"), row.get("high_ms")
            interval = f" ({low:+,.3f} to {high:+,.3f})" if low is not None and high is not None else ""
            found.append(f"{row[figure.key]}{change}{interval}" if row.get("proof") == _NOISE else "")
    return found


def of_ranks(conditions: Sequence[Condition], ranks: Sequence[Ranked]) -> list[Condition]:
    """The conditions with the names of traces where they call a rank by its number.

    Raises:
        AnalysisError: one names a rank that is not there.
    """
    return [_of_rank(one, ranks) if one.figure.text.startswith(_RANK) else one for one in conditions]


def _of_rank(condition: Condition, ranks: Sequence[Ranked]) -> Condition:
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.graph.ranks import rank_called

    figure = condition.figure
    try:
        name = ranks[rank_called(ranks, figure.rows[0])].name
    except AnalysisError as error:
        raise AnalysisError(f"--fail-if: {figure.text}: {error}") from None
    return replace(condition, figure=replace(figure, key="trace", rows=(name,), may_lack=True))


def judged(conditions: Iterable[Condition], reading: Callable[[Condition], Reading]) -> tuple[list[str], list[str]]:
    """Notes on conditions that are not met, such as that there is no op of that name, and a line for each that is met.

    Args:
        conditions: the conditions; one whose figure is not known counts as met.
        reading: gives the value of the figure of one.
    """
    notes, met = [], []
    for condition in conditions:
        found = reading(condition)
        if line := condition.judge(found):
            met.append(line)
        elif found.remark:
            notes.append(f"{condition.name}: {found.remark}")
    return notes, met


def of_tables(conditions: Iterable[Condition], tables: Mapping[str, Table]) -> tuple[list[str], list[str]]:
    """The same, of figures of some tables."""
    return judged(conditions, lambda one: read(one.figure, tables, one.operator))


def judge(
    conditions: Sequence[Condition], table: Callable[[str], Table], traces: TraceSet | None = None, doubt: str = ""
) -> None:
    """Check conditions on tables, which a function gives by name, and say on standard error what was found.

    Args:
        doubt: why figures may not mean what a condition is on.

    Raises:
        typer.Exit: conditions are met, with the exit code FAILED; or the traces lack one that could not be read, or, as
            a rank may be missing from a verdict, files that were named and are none.
    """
    tables = {name: table(name) for name in {one.figure.table for one in conditions}}
    notes, met = of_tables(conditions, tables)
    conclude([*notes, *([doubt] if doubt else [])], met)
    if traces is not None and (traces.broken or (conditions and traces.no_traces)):
        raise typer.Exit(1)


def conclude(remarks: Sequence[str], met: Sequence[str]) -> None:
    """Say on standard error what was found.

    Raises:
        typer.Exit: conditions are met; with the exit code FAILED.
    """
    from tracelens_graph.utils.texts import printable

    for line in remarks:
        print(printable(f"note: {line}"), file=sys.stderr)
    for line in met:
        print(printable(f"failed: {line}"), file=sys.stderr)
    if met:
        raise typer.Exit(FAILED)


def _condition(text: str, suffixes: Sequence[str], options: ReportOptions | None, of: Figures | None) -> Condition:
    match = _CONDITION.fullmatch(text.strip())
    if not match or not match["figure"]:
        example = next(iter((of or figures_of_report()).fixed))
        raise _refused(text, f"a condition is a figure, an operator and a number, such as '{example} > 20'")
    if match["operator"] not in _OPERATORS:
        raise _refused(text, f"there is no operator {match['operator']}; {there_are(_OPERATORS)}")
    try:
        number = float(match["number"].replace("_", "?"))  # Python would take 1_0 for 10
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _refused(text, f"{match['number']!r} is not a number")
    name, _, suffix = match["figure"].rpartition(":")
    if suffix not in suffixes:
        name, suffix = match["figure"], ""
    return Condition(_figure(text, name, options, of or figures_of_report()), suffix, match["operator"], number)


def _figure(text: str, name: str, options: ReportOptions | None, of: Figures) -> Figure:
    kind, _, rest = name.partition(":")
    named = of.named
    if kind in named and rest:
        row, _, field = rest.rpartition(":")
        table, fields = named[kind], _fields(named[kind])
        if not row or field not in fields:
            endings = ", ".join(f":{known}" for known in fields)
            raise _refused(text, f"{name!r} must end in one of {endings}")
        return Figure(name, table, _key(table), (row,), fields[field])
    if name == _UNLINKED and of.has_unlinked:
        if options and options.linked_only:
            raise _refused(text, "--linked-only leaves out what it asks for")
        table = named["category"]
        return Figure(name, table, _key(table), ("unlinked",), _fields(table)["percent"])
    figures = of.fixed
    if name not in figures:
        hint = did_you_mean(name, [*figures, *([_UNLINKED] if of.has_unlinked else [])]) or f"there are {_forms(of)}"
        raise _refused(text, f"there is no figure {name!r}; {hint}")
    figure = figures[name]
    if options and options.recompute:
        raise _refused(text, "--recompute splits the timeline, so that no row covers everything")
    if options and options.micro_idle_us is None and {"micro_idle_time", "macro_idle_time"} & {figure.rows[0]}:
        raise _refused(text, "that figure needs --micro-idle")
    return figure


def _timeline_figures() -> dict[str, Figure]:
    from tracelens_graph.analyses.timeline.timeline import ROW_MEANING

    figures = {}
    for row in ROW_MEANING:
        # Idle time may be split, and is then the sum of its parts.
        rows = (row, "micro_idle_time", "macro_idle_time") if row == "idle_time" else (row,)
        for field, column in _fields(_TIMELINE).items():
            short = f"{row.removesuffix('_time')}_{field}"
            for name in (short, f"{row}_{field}"):
                figures[name] = Figure(short, _TIMELINE, _key(_TIMELINE), rows, column)
    return figures


def figures_of_report() -> Figures:
    """The figures of a report."""
    from tracelens_graph.registry import REPORT

    return Figures(_timeline_figures(), _named(REPORT), has_unlinked=True)


def figures_of_diff() -> Figures:
    """The figures of a comparison by structure: changes of times as wholes, and at places."""
    from tracelens_graph.analyses.alignment.tables import TOTALS

    fixed = _fixed("diff_totals", TOTALS)
    slower = replace(fixed["total_time_percent"], text="slower_percent", rows=("total_time", "step_time"))
    return Figures({slower.text: slower, **fixed}, _named(["diff_places"]))


def figures_of_ranks() -> Figures:
    """The figures of the ranks of a job: times of a step, its slowdown, kinds of collectives, and ranks."""
    from tracelens_graph.analyses.ranks.rank_tables import ROW_MEANING

    slowdown = Figure("slowdown", "slowdown", "of", ("job",), "slowdown")
    return Figures(
        {**_fixed("rank_times", ROW_MEANING), "slowdown": slowdown}, _named(["collective_kinds", "rank_balance"])
    )


def figures_of_link() -> Figures:
    """The figures of a linked pair of traces: how much links, and how much round-trips."""
    from tracelens_graph.linkage.tables import COUNTED

    return Figures(_fixed("link_counts", COUNTED), {})


def _fixed(table: str, rows: Iterable[str], may_lack: bool = False) -> dict[str, Figure]:
    """The figures of a table whose rows are known; whether one may lack that counts as 0 then."""
    return {
        f"{row}_{field}": Figure(f"{row}_{field}", table, _key(table), (row,), column, may_lack)
        for row in rows
        for field, column in _fields(table).items()
    }


def figures_of_path() -> Figures:
    """The figures of a critical path: its length, the classes of its time, and the ranks that it leads over."""
    from tracelens_graph.analyses.critical_path.path_tables import CLASS_MEANING

    table = "critical_path_classes"
    length = Figure("path_ms", table, _key(table), (), _fields(table)["ms"], may_lack=True)
    return Figures({"path_ms": length, **_fixed(table, CLASS_MEANING, may_lack=True)}, _named(["critical_path_ranks"]))


def figures_of_what_if() -> Figures:
    """The figures of one change: how long it would be then, and what that saves."""
    table = "what_if"
    fields = _fields(table).items()
    return Figures({field: Figure(field, table, _key(table), (), column) for field, column in fields}, {})


def _forms(of: Figures) -> str:
    """All figures there are, in one line."""
    fields: dict[str, list[str]] = {}
    for figure in of.fixed.values():
        row, _, field = figure.text.rpartition("_")
        if field not in fields.setdefault(row, []):
            fields[row].append(field)
    rows = [f"{row}_{'|'.join(known)}" for row, known in fields.items()]
    named = [f"{kind}:NAME:{'|'.join(_fields(table))}" for kind, table in of.named.items()]
    return ", ".join([*rows, *([_UNLINKED] if of.has_unlinked else []), *named])


def _named(tables: Iterable[str]) -> dict[str, str]:
    """What a row is called in a figure -> which of some tables it stands in."""
    from tracelens_graph.registry import schema_of

    return {schema.figure: schema.name for schema in map(schema_of, tables) if schema.figure}


def _fields(table: str) -> dict[str, str]:
    """What a number of a row is called in a figure -> its column."""
    from tracelens_graph.registry import schema_of

    return {column.figure: name for name, column in schema_of(table).items() if column.figure}


def _key(table: str) -> str:
    """The column with the names of rows."""
    from tracelens_graph.registry import schema_of
    from tracelens_graph.tables.column import keys

    return keys(schema_of(table))[0]


def _refused(text: str, why: str) -> typer.BadParameter:
    return typer.BadParameter(f"--fail-if {text!r}: {why}")
