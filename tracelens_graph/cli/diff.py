"""`tracelens-graph diff`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli import gate
from tracelens_graph.cli.common import ASCII_BRANCHES, has_branches, load, write_table
from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    TO_FOLDER,
    CacheOption,
    Extensions,
    Format,
    FormatOption,
    Written,
    extension_of,
)
from tracelens_graph.cli.outputs import say_written
from tracelens_graph.cli.traces import files_named, names_of, say
from tracelens_graph.cli.windows import WindowChoice, with_window_options

if TYPE_CHECKING:
    from tracelens_graph.analyses.alignment.difference import Diff
    from tracelens_graph.graph.window import Window
    from tracelens_graph.table import Table

_ROWS_FOR_PEOPLE = 20
_PROGRAM = "tracelens-graph"


class Layout(StrEnum):
    """Whose tables are written."""

    own = "own"
    tracelens = "tracelens"


@dataclass(frozen=True)
class _Shown:
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
    layout: Layout

    @property
    def for_two(self) -> list[str]:
        """The options that take exactly two traces, of those that were given."""
        given = {
            "--tree": self.tree, "--points": self.points, "--point": self.point is not None,
            "--json": self.json, "--markdown": self.markdown, "--layout tracelens": self.layout is Layout.tracelens,
        }  # fmt: skip
        return [name for name, value in given.items() if value]


@with_window_options
def diff(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            show_default=False,
            help="Traces or saved graphs, folders of these, patterns, or - for stdin; the first is what the others are "
            "compared with.",
        ),
    ],
    window: WindowChoice,
    within: Annotated[
        bool,
        typer.Option(
            "--within", help="Of one trace: which layer or step is not like the others; of several: which rank."
        ),
    ] = False,
    names: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", show_default=False, help="What to call the traces; else by file or folder."),
    ] = None,
    points: Annotated[bool, typer.Option("--points", help="List all places in which they differ.")] = False,
    point: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, show_default=False, help="Draw place N of the screen or --points, both sides."
        ),
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Draw both call trees as one, with both times.")] = False,
    min_percent: Annotated[
        float, typer.Option(metavar="P", min=0, max=100, help="With --tree: fold what has less of time and change.")
    ] = 1,
    format: FormatOption = Format.table,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help=f"Rows of tables; 0 for all, {_ROWS_FOR_PEOPLE} else for people.",
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default=False, help="Write every table to DIR/NAME.csv."),
        TO_FOLDER,
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write everything as JSON."),
        Written((".json",)),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write a page of Markdown, as for a pull request."),
        Written((".md", ".markdown")),
    ] = None,
    layout: Annotated[
        Layout,
        typer.Option(help="With --csv: our tables, or the files of TraceLens's TraceDiff, of whole traces as there."),
    ] = Layout.own,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'FIGURE OP NUMBER'",
            show_default=False,
            help="End with exit code 3 if this holds of the change, such as 'slower_percent > 3' or "
            "'place:aten::mm:ms > 0.5'; may be given again.",
        ),
    ] = None,
    extension: Extensions = None,
    cache: CacheOption = False,
) -> None:
    """Compare traces by structure: align their call trees, and say where GPU time changed, and why.

    Where both have steps, and no part of them is chosen, a step of median GPU time is compared with one.

    Example: tracelens-graph diff trace.json.gz other.json.gz

    Example: tracelens-graph diff trace.json.gz other.json.gz --markdown diff.md --fail-if 'slower_percent > 3'

    Example: tracelens-graph diff --within trace.json.gz

    Example: tracelens-graph diff trace.json.gz other.json.gz --layout tracelens --csv rprt_diff/
    """
    shown = _Shown(tree, points, point, top, format, min_percent, csv, json, markdown, layout)
    paths = files_named(runs)
    if paths.count("-") > 1:
        raise typer.BadParameter("only one trace can come from standard input")
    _check(shown, paths, within, fail_if or [])
    conditions = gate.parse(fail_if or [], of=gate.figures_of_diff())
    tags = names_of(paths, names)
    added = extension_of(extension)

    def opened(path: str) -> Window:
        return window.of(load(path, cache, wants_gpu=True), added)

    if within:
        _within(paths, tags, opened, shown, Call(paths[0], window, extension or []))
    elif len(paths) > 2:
        _several(paths, tags, opened, shown, window != WindowChoice())
    else:
        call = Call(paths[0], window, extension or []), Call(paths[1], window, extension or [])
        _two((opened(paths[0]), opened(paths[1])), (tags[0], tags[1]), shown, conditions, call)


def _check(shown: _Shown, paths: Sequence[str], within: bool, conditions: Sequence[str]) -> None:
    if not within and len(paths) < 2:
        raise typer.BadParameter("name at least two traces, or --within and one")
    two = [*shown.for_two, *(["--fail-if"] if conditions else [])]
    if two and (within or len(paths) > 2):
        raise typer.BadParameter(f"{two[0]} takes two traces{', not --within' if within else f', not {len(paths)}'}")
    drawn = [name for name in shown.for_two if name in ("--tree", "--points", "--point")]
    if len(drawn) > 1:
        raise typer.BadParameter(f"{drawn[0]} and {drawn[1]} are two answers: give one of them")
    if shown.layout is Layout.tracelens and (drawn or shown.csv is None):
        raise typer.BadParameter("--layout tracelens is for files: name a folder with --csv" if not drawn else
                                 f"--layout tracelens is for files, not {drawn[0]}")  # fmt: skip
    if shown.format is not Format.table and {*drawn} & {"--tree", "--point"}:
        raise typer.BadParameter(f"--format is for tables: --points, not {drawn[0]}")


def _two(
    windows: tuple[Window, Window], names: tuple[str, str], shown: _Shown, conditions: Sequence[gate.Condition],
    calls: tuple[Call, Call],
) -> None:  # fmt: skip
    from tracelens_graph.analyses.alignment.difference import diff as compared
    from tracelens_graph.analyses.alignment.steps import median_steps
    from tracelens_graph.analyses.alignment.tables import places_table, totals_table
    from tracelens_graph.analyses.alignment.times import times_table
    from tracelens_graph.reports.diff_text import notes_on

    chosen = calls[0].window != WindowChoice()
    is_whole = chosen or shown.layout is Layout.tracelens
    first, second = windows if is_whole else median_steps(*windows)
    difference = compared(first, second, names)
    notes = notes_on(difference)
    if (first, second) != windows:
        notes = ["One step of each is compared: --step N takes another, --from 0ms all of both traces.", *notes]
    makers = {"diff_totals": totals_table, "diff_times": times_table, "diff_places": places_table}
    if shown.tree:
        _draw_tree(difference, shown.min_percent)
    elif shown.point is not None:
        _draw_point(difference, places_table(difference), shown.point, calls)
    else:
        tables = {name: make(difference) for name, make in makers.items()}
        if shown.points or (shown.format is not Format.table and not _writes(shown)):
            tables["diff_places"].notes = notes
            _list(tables["diff_places"], shown)
        elif not _writes(shown):
            _print_screen(difference, tables, notes, calls)
        _write(difference, tables, notes, shown)
    if conditions:
        tables = {name: makers[name](difference) for name in {one.figure.table for one in conditions}}
        gate.conclude(gate.remarks(conditions, tables), gate.check(conditions, tables))


def _writes(shown: _Shown) -> bool:
    return bool(shown.csv or shown.json or shown.markdown)


def _print_screen(difference: Diff, tables: dict[str, Table], notes: list[str], calls: tuple[Call, Call]) -> None:
    from tracelens_graph.reports.diff_text import screen
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    width, color = terminal_width(sys.stdout), wants_color(sys.stdout)
    for line in screen(difference, tables, width, color, notes):
        print(line)
    if any(change for change in tables["diff_places"]["change_ms"]):
        print(f"ask next: {_again(calls, '--point 1')}")


def _again(calls: tuple[Call, Call], options: str) -> str:
    """The command that compares the two once more."""
    other = calls[1].complete("TRACE")
    return calls[0].complete(f"{_PROGRAM} diff TRACE {'OTHER' if other == 'TRACE' else other} {options}")


def _draw_tree(difference: Diff, min_percent: float) -> None:
    from tracelens_graph.analyses.alignment.merged import merged_tree
    from tracelens_graph.reports.diff_text import side_lines
    from tracelens_graph.reports.diff_tree import tree_lines
    from tracelens_graph.reports.terminal import terminal_width, wants_color
    from tracelens_graph.texts import printable, wrapped

    width, color = terminal_width(sys.stdout), wants_color(sys.stdout)
    for line in side_lines(difference):
        _print_drawn(wrapped(printable(line), width, "  "))
    print()
    _print_drawn(tree_lines(merged_tree(difference.alignment), width, color, min_percent))


def _draw_point(difference: Diff, places: Table, number: int, calls: tuple[Call, Call]) -> None:
    from tracelens_graph.reports.diff_point import point_lines
    from tracelens_graph.reports.diff_text import place_lines
    from tracelens_graph.reports.terminal import terminal_width

    if number > len(places):
        raise typer.BadParameter(f"--point: there are {len(places):,} places, from 1")
    width = terminal_width(sys.stdout)
    row = places.records()[number - 1]
    _print_drawn(place_lines(row, width))
    print()
    _print_drawn(point_lines(difference, difference.places[number - 1], width))
    for call, uid in zip(calls, (row["uid_a"], row["uid_b"]), strict=True):
        if uid is not None:
            print(f"ask next: {call.complete(f'{_PROGRAM} tree TRACE --uid {uid} --up')}")
    for call, side in zip(calls, "ab", strict=True):
        if (uid := row[f"uid_{side}"]) is not None:
            cut = f"{_PROGRAM} cut TRACE --uid {uid} -o {side}-{uid}.json.gz"
            print(f"open in Perfetto UI: {call.complete(cut)}")


def _print_drawn(lines: Iterator[str]) -> None:
    in_ascii = not has_branches(sys.stdout.encoding)
    for line in lines:
        print((line.translate(ASCII_BRANCHES) if in_ascii else line).rstrip())


def _list(table: Table, shown: _Shown) -> None:
    """Print a table: for people the columns that say most, and not all rows."""
    from tracelens_graph.reports.views import top as first_rows

    rows = (_ROWS_FOR_PEOPLE if shown.format is Format.table else 0) if shown.top is None else shown.top
    table = first_rows(table, rows)
    if shown.format in (Format.table, Format.md):
        from tracelens_graph.reports.views import told

        table = told(table)
    write_table(table, shown.format)


def _write(difference: Diff, tables: dict[str, Table], notes: list[str], shown: _Shown) -> None:
    from tracelens_graph.files import replacing
    from tracelens_graph.reports.diff_document import diff_json, diff_markdown

    if shown.csv and shown.layout is Layout.tracelens:
        _write_as_tracelens(difference, shown.csv)
    elif shown.csv:
        _write_folder(tables, shown.csv)
    if shown.json:
        with replacing(shown.json) as file:
            file.write(diff_json(difference, tables, notes).encode())
        say_written(f"wrote {len(tables)} tables to {shown.json}", shown.json)
    if shown.markdown:
        rows = {} if shown.top is None else {"rows": shown.top}
        with replacing(shown.markdown) as file:
            page = diff_markdown(difference, tables["diff_totals"], tables["diff_places"], notes, **rows)
            file.write(page.encode("utf-8", "backslashreplace"))
        say_written(f"wrote a page to {shown.markdown}", shown.markdown)


def _write_as_tracelens(difference: Diff, folder: Path) -> None:
    from tracelens_graph.analyses.alignment.tracelens import TraceLensDiff
    from tracelens_graph.compat.trace_diff_files import write_trace_diff

    told = TraceLensDiff(difference)
    written = write_trace_diff(told, folder)
    say(told.notes)
    say_written(f"wrote {len(written)} files to {folder}", folder)


def _write_folder(tables: dict[str, Table], folder: Path) -> None:
    from tracelens_graph.reports.folder import write_folder

    write_folder(tables, folder)
    say_written(f"wrote {len(tables)} {'table' if len(tables) == 1 else 'tables'} to {folder}", folder)


def _readable(
    paths: Sequence[str], tags: Sequence[str], opened: Callable[[str], Window]
) -> Iterator[tuple[str, Window]]:
    """The windows of those files that are traces: whatever else lies in a folder of traces is passed over."""
    from tracelens_graph.errors import NotATraceError, TraceError
    from tracelens_graph.set_loading import left_out_note

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


def _several(
    paths: Sequence[str], tags: Sequence[str], opened: Callable[[str], Window], shown: _Shown, chosen: bool
) -> None:
    from tracelens_graph.analyses.alignment.several import runs_table
    from tracelens_graph.reports.diff_text import runs_text

    _answer(runs_table(_readable(paths, tags, opened), chosen), shown, runs_text)


def _within(
    paths: Sequence[str], tags: Sequence[str], opened: Callable[[str], Window], shown: _Shown, call: Call
) -> None:
    from tracelens_graph.analyses.alignment.several import odd_parts, odd_ranks
    from tracelens_graph.reports.diff_text import within_text

    table = odd_parts(opened(paths[0])) if len(paths) == 1 else odd_ranks(dict(_readable(paths, tags, opened)))
    rows = _ROWS_FOR_PEOPLE if shown.top is None else shown.top
    _answer(table, shown, partial(within_text, most=rows))
    if shown.format is Format.table and not shown.csv and len(paths) == 1 and len(table):
        uid, usual = table["uid"][0], table["usual_uid"][0]
        if uid is not None:
            under = f"{_PROGRAM} tree TRACE --prune --uid"
            print(f"ask next: {call.complete(f'{under} {uid}')}")
            print(f"ask next: {call.complete(f'{under} {usual}')}")


def _answer(table: Table, shown: _Shown, text: Callable[[Table, int, bool], Iterator[str]]) -> None:
    """Write a table, or print it; for people as a text."""
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    if shown.csv:
        _write_folder({table.name: table}, shown.csv)
    elif shown.format is Format.table:
        _print_drawn(text(table, terminal_width(sys.stdout), wants_color(sys.stdout)))
    else:
        _list(table, shown)
