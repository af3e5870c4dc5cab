"""The work of `tracelens-graph diff`: what it prints, draws and writes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.common import ASCII_BRANCHES, has_branches, write_table, write_tables
from tracelens_graph.cli.hints import Call, without_folders
from tracelens_graph.cli.options import Format, Layout
from tracelens_graph.cli.outputs import say_written
from tracelens_graph.cli.traces import say
from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.analyses.alignment.difference import Diff, Place
    from tracelens_graph.graph.window import Window
    from tracelens_graph.tables.table import Table

ROWS_FOR_PEOPLE = 20
_FOR_PEOPLE = (Format.table, Format.md)
_PROGRAM = "tracelens-graph"


@dataclass(frozen=True)
class Shown:
    """What is shown of two traces."""

    tree: bool
    points: bool
    point: int | None
    top: int | None
    format: Format
    min_percent: float
    csv: Path | None
    json: Path | None
    markdown: Path | None
    html: Path | None
    layout: Layout

    @property
    def writes(self) -> bool:
        """Whether files are written, and nothing is printed that was not asked for."""
        return bool(self.csv or self.json or self.markdown or self.html)

    @property
    def is_text(self) -> bool:
        """Whether people read the answer on the terminal, so that hints have their place below it."""
        return self.format is Format.table and not self.writes

    @property
    def for_two(self) -> list[str]:
        """The options that take exactly two traces, of those that were given."""
        given = {
            "--tree": self.tree, "--points": self.points, "--point": self.point is not None, "--json": self.json,
            "--markdown": self.markdown, "--html": self.html,
            "--layout tracelens": self.layout is Layout.tracelens,
        }  # fmt: skip
        return [name for name, value in given.items() if value]


@dataclass(frozen=True)
class Pair:
    """Commands that ask two traces, or both of them, further.

    Attributes:
        calls: what the command was asked, of each.
        names: what the user calls them; None to go by files.
    """

    calls: tuple[Call, Call]
    names: str | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether both traces can be read again: what came through a pipe cannot."""
        return not any(call.is_of_pipe for call in self.calls)

    def without_folders(self) -> Pair:
        """The same for a page that goes elsewhere: of the paths only the end that tells the two traces apart."""
        ends = without_folders([call.trace for call in self.calls])
        first, second = (replace(call.without_folders(), trace=end) for call, end in zip(self.calls, ends, strict=True))
        return Pair((first, second), self.names)

    def diff(self, options: str) -> str:
        """The command that compares the two once more."""
        names = "" if self.names is None else f" --names {shlex.quote(self.names)}"
        first, second = (shlex.quote(call.trace) for call in self.calls)
        return self.calls[0].complete(f"{_PROGRAM} diff {first} {second}{names} {options}".rstrip())


_FRAMEWORKS = (
    "Operations of JAX have other names than those of PyTorch: `tracelens-graph compare` joins what both compute by"
    " family and sizes."
)


def two_traces(
    windows: tuple[Window, Window], names: tuple[str, str], shown: Shown, conditions: Sequence[gate.Condition],
    pair: Pair,
) -> None:  # fmt: skip
    """Compare two traces, and print, draw and write what is asked for; end with the exit code of failed conditions."""
    from tracelens_graph.analyses.alignment.difference import diff as compared
    from tracelens_graph.analyses.alignment.difference import median_steps
    from tracelens_graph.analyses.alignment.tables import places_table, times_table, totals_table
    from tracelens_graph.reports.diff_text import notes_on, warnings_on

    chosen = pair.calls[0].window != WindowChoice()
    is_whole = chosen or shown.layout is Layout.tracelens
    first, second = windows if is_whole else median_steps(*windows)
    difference = compared(first, second, names)
    notes = notes_on(difference)
    if (first, second) != windows:
        notes = ["One step of each is compared: --step N takes another, --from 0ms all.", *notes]
    if first.framework.name != second.framework.name:
        notes = [*notes, _FRAMEWORKS]
    makers = {"diff_totals": totals_table, "diff_times": times_table, "diff_places": places_table}

    @cache
    def table(name: str) -> Table:
        return makers[name](difference)

    said = [*warnings_on(difference), *notes]
    if shown.tree:
        _draw_tree(difference, shown.min_percent)
    elif shown.point is not None:
        _draw_point(difference, table("diff_places"), shown.point, pair)
    elif shown.points or (shown.format is not Format.table and not shown.writes):
        _list_places(replace(table("diff_places"), notes=said), shown)
    elif not shown.writes:
        _print_screen(difference, {name: table(name) for name in makers}, notes, pair, shown.top)
    if shown.csv and shown.layout is Layout.tracelens:
        _write_as_tracelens(difference, shown.csv)
    elif shown.csv:
        write_tables({name: table(name) for name in makers}, shown.csv)
    if shown.json:
        _write_json(difference, {name: table(name) for name in makers}, said, shown.json)
    if shown.markdown:
        _write_page(difference, {name: table(name) for name in makers}, said, shown.markdown, shown.top)
    if shown.html:
        _write_html(difference, {name: table(name) for name in makers}, said, shown.html, pair)
    if conditions:
        tables = {name: table(name) for name in {one.figure.table for one in conditions}}
        gate.conclude(gate.remarks(conditions, tables), gate.check(conditions, tables))


def _print_screen(difference: Diff, tables: dict[str, Table], notes: list[str], pair: Pair, top: int | None) -> None:
    from tracelens_graph.reports.diff_text import changed_places, screen
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    width, color = terminal_width(sys.stdout), wants_color(sys.stdout)
    for line in screen(difference, tables, width, color, notes, top):
        print(line)
    if pair.is_repeatable and changed_places(tables["diff_places"]):
        print(f"ask next: {pair.diff('--point 1')}")


def _draw_tree(difference: Diff, min_percent: float) -> None:
    from tracelens_graph.analyses.alignment.merged import merged_tree
    from tracelens_graph.reports.diff_text import side_lines, warnings_on
    from tracelens_graph.reports.diff_tree import tree_lines
    from tracelens_graph.reports.terminal import terminal_width, wants_color
    from tracelens_graph.utils.texts import printable, wrapped

    width, color = terminal_width(sys.stdout), wants_color(sys.stdout)
    for line in (*side_lines(difference), *warnings_on(difference)):
        _print_drawn(wrapped(printable(line), width, "  "))
    print()
    _print_drawn(tree_lines(merged_tree(difference.alignment), width, color, min_percent))


def _draw_point(difference: Diff, places: Table, number: int, pair: Pair) -> None:
    from tracelens_graph.reports.diff_point import point_lines
    from tracelens_graph.reports.diff_text import place_lines
    from tracelens_graph.reports.terminal import terminal_width

    if number > len(places):
        raise typer.BadParameter(f"--point: there are {len(places):,} places, from 1")
    width = terminal_width(sys.stdout)
    place = difference.places[number - 1]
    _print_drawn(place_lines(places.records()[number - 1], width))
    print()
    _print_drawn(point_lines(difference, place, width))
    for line in _on_point(difference, place, pair):
        print(line)


def _on_point(difference: Diff, place: Place, pair: Pair) -> Iterator[str]:
    """Lines with what to do next about a place, a command each; none for traces that cannot be read again."""
    from tracelens_graph.reports.diff_point import drawn_rows

    if not pair.is_repeatable:
        return
    sides = (difference.a.core, difference.b.core)
    uids = [int(core.columns.uid[row]) if row >= 0 else None
            for core, row in zip(sides, drawn_rows(difference, place), strict=True)]  # fmt: skip
    for call, uid in zip(pair.calls, uids, strict=True):
        if uid is not None:
            yield f"ask next: {call.complete(f'{_PROGRAM} tree TRACE --uid {uid} --up')}"
    for call, core, uid in zip(pair.calls, sides, uids, strict=True):
        if uid is not None:
            yield from call.to_replay([core.names[core.columns.name[core.row(uid)]]], f"--uid {uid}")
    for call, side, uid in zip(pair.calls, "ab", uids, strict=True):
        if uid is not None:
            cut = f"{_PROGRAM} cut TRACE --uid {uid} -o {side}-{uid}.json.gz"
            yield f"open in Perfetto UI: {call.complete(cut)}"


def _print_drawn(lines: Iterator[str]) -> None:
    in_ascii = not has_branches(sys.stdout.encoding)
    for line in lines:
        print((line.translate(ASCII_BRANCHES) if in_ascii else line).rstrip())


def _list_places(places: Table, shown: Shown) -> None:
    """Print the places: for people those that differ, for programs all."""
    from tracelens_graph.reports.diff_text import only_changed

    _list(only_changed(places) if shown.format in _FOR_PEOPLE else places, shown)


def _list(table: Table, shown: Shown) -> None:
    """Print a table: for people the columns that say most, and not all rows."""
    from tracelens_graph.reports.views import top as first_rows

    rows = (ROWS_FOR_PEOPLE if shown.format is Format.table else 0) if shown.top is None else shown.top
    table = first_rows(table, rows)
    if shown.format in _FOR_PEOPLE:
        from tracelens_graph.reports.views import told

        table = told(table)
    write_table(table, shown.format)


def _write_json(difference: Diff, tables: dict[str, Table], notes: list[str], path: Path) -> None:
    from tracelens_graph.output.files import replacing
    from tracelens_graph.reports.diff_document import diff_json

    with replacing(path) as file:
        file.write(diff_json(difference, tables, notes).encode())
    say_written(f"wrote {len(tables)} tables to {path}", path)


def _write_page(difference: Diff, tables: dict[str, Table], notes: list[str], path: Path, rows: int | None) -> None:
    from tracelens_graph.output.files import replacing
    from tracelens_graph.reports.diff_document import diff_markdown

    page = diff_markdown(difference, tables, notes, **({} if rows is None else {"rows": rows}))
    with replacing(path) as file:
        file.write(page.encode("utf-8", "backslashreplace"))
    say_written(f"wrote a page to {path}", path)


def _write_html(difference: Diff, tables: dict[str, Table], said: list[str], path: Path, pair: Pair) -> None:
    from tracelens_graph.output.files import replacing
    from tracelens_graph.reports.html.diff import diff_page

    apart = pair.without_folders() if pair.is_repeatable else pair

    def commands(number: int) -> Iterator[tuple[str, str]]:
        lines = [f"ask next: {apart.diff(f'--point {number}')}"] if pair.is_repeatable else []
        for line in (*lines, *_on_point(difference, difference.places[number - 1], apart)):
            label, _, command = line.partition(": ")
            yield label, command

    with replacing(path) as file:
        file.write(diff_page(difference, tables, said, commands).encode())
    say_written(f"page written to {path}", path)


def _write_as_tracelens(difference: Diff, folder: Path) -> None:
    from tracelens_graph.analyses.alignment.common_ancestors import TraceLensDiff
    from tracelens_graph.compat.trace_diff import write_trace_diff

    told = TraceLensDiff(difference)
    written = write_trace_diff(told, folder)
    say(told.notes)
    say_written(f"wrote {len(written)} files to {folder}", folder)


def _readable(
    paths: Sequence[str], tags: Sequence[str], opened: Callable[[str], Window]
) -> Iterator[tuple[str, Window]]:
    """The windows of those files that are traces: whatever else lies in a folder of traces is passed over."""
    from tracelens_graph.errors import NotATraceError, TraceError
    from tracelens_graph.loading.many import left_out_note

    others = []
    for path, tag in zip(paths, tags, strict=True):
        try:
            window = opened(path)
        except NotATraceError:
            others.append(path)
            continue
        yield tag, window
    if len(others) == len(paths):
        raise TraceError(f"none of the {len(paths)} files is a trace that can be read")
    say(left_out_note(others))


def several_traces(
    paths: Sequence[str], tags: Sequence[str], opened: Callable[[str], Window], shown: Shown, calls: Sequence[Call],
    names: str | None,
) -> None:  # fmt: skip
    """Compare several traces with the first."""
    from tracelens_graph.analyses.alignment.several import runs_table
    from tracelens_graph.reports.diff_text import runs_text

    table = runs_table(_readable(paths, tags, opened), calls[0].window != WindowChoice())
    _answer(table, shown, runs_text)
    first, *others = table.records()
    most = max(others, key=lambda row: abs(row["change_ms"]), default=None)
    if shown.is_text and most is not None and most["most"]:
        _hint_pair((first["run"], most["run"]), tags, calls, names)


def _hint_pair(two: tuple[str, str], tags: Sequence[str], calls: Sequence[Call], names: str | None) -> None:
    """The command that compares two of several traces.

    Args:
        two: what they are called.
        tags, calls: of all traces.
        names: what the user calls all of them; None to go by files.
    """
    call_of = dict(zip(tags, calls, strict=True))
    pair = Pair((call_of[two[0]], call_of[two[1]]), names and ",".join(two))
    if pair.is_repeatable:
        print(f"ask next: {pair.diff('')}")


def parts_within(
    paths: Sequence[str], tags: Sequence[str], opened: Callable[[str], Window], shown: Shown, calls: Sequence[Call],
    names: str | None, runs: Sequence[str],
) -> None:  # fmt: skip
    """Say which part of one trace, or which of several ranks, is not like the others."""
    from tracelens_graph.analyses.alignment.several import odd_parts, odd_ranks
    from tracelens_graph.reports.diff_text import within_text

    table = odd_parts(opened(paths[0])) if len(paths) == 1 else odd_ranks(dict(_readable(paths, tags, opened)))
    rows = ROWS_FOR_PEOPLE if shown.top is None else shown.top
    _answer(table, shown, partial(within_text, most=rows))
    if not shown.is_text or not len(table) or any(call.is_of_pipe for call in calls):
        return
    row = table.records()[0]
    if len(paths) > 1:
        print(f"ask next: {calls[0].complete(f'{_PROGRAM} report {shlex.join(runs)}')}")
        _hint_pair((row["usual"], row["name"]), tags, calls, names)
    elif row["uid"] is not None:
        for uid in (row["uid"], row["usual_uid"]):
            print(f"ask next: {calls[0].complete(f'{_PROGRAM} tree TRACE --prune --uid {uid}')}")
    else:
        for name in (row["name"], row["usual"]):
            step = name.rpartition("#")[2]
            print(f"ask next: {calls[0].complete(f'{_PROGRAM} report TRACE --step {step}')}")


def _answer(table: Table, shown: Shown, text: Callable[[Table, int, bool], Iterator[str]]) -> None:
    """Write a table, or print it; for people as a text."""
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    if shown.csv:
        write_tables({table.name: table}, shown.csv)
    elif shown.format is Format.table:
        _print_drawn(text(table, terminal_width(sys.stdout), wants_color(sys.stdout)))
    else:
        _list(table, shown)
