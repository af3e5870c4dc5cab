"""What `tracelens-graph ranks` is to show, and the files that it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli.common import write_tables
from tracelens_graph.cli.drawing import drawn_as
from tracelens_graph.cli.options import Format, Layout
from tracelens_graph.cli.outputs import say_written

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table


@dataclass(frozen=True)
class Shown:
    """What is shown of the ranks."""

    table: str | None
    format: Format
    top: int | None
    csv: Path | None
    xlsx: Path | None
    json: Path | None
    markdown: Path | None
    html: Path | None
    output: Path | None
    layout: Layout
    lenient: bool

    @property
    def writes(self) -> bool:
        """Whether files are written, and nothing is printed that was not asked for."""
        return bool(self.csv or self.xlsx or self.json or self.markdown or self.html or self.output)

    def check(self) -> None:
        """Refuse what does not go together, or cannot be drawn.

        Raises:
            typer.BadParameter: it does not, or the suffix is that of nothing that is drawn.
            MissingExtraError: the library that draws pictures is not installed.
        """
        if self.output:
            drawn_as(self.output)
        if self.layout is Layout.tracelens and not (self.csv or self.xlsx):
            raise typer.BadParameter("--layout tracelens is for files: name a folder with --csv, or a file with --xlsx")
        if self.lenient and self.layout is not Layout.tracelens:
            raise typer.BadParameter("--lenient goes with --layout tracelens")
        if self.layout is Layout.tracelens and (self.table or self.json or self.markdown or self.html or self.output):
            raise typer.BadParameter("--layout tracelens goes with --csv and --xlsx alone")

    def check_path(self) -> None:
        """Refuse what there is not of a critical path.

        Raises:
            typer.BadParameter: a drawing, or the tables of TraceLens, are asked for.
        """
        if self.html or self.output:
            raise typer.BadParameter(
                f"{'--html' if self.html else '-o'} draws waits and bandwidths, not a path: leave out --path and "
                "--what-if, or write the tables of the path with --csv, --xlsx, --json or --markdown"
            )
        if self.layout is Layout.tracelens:
            raise typer.BadParameter("TraceLens has no tables of a critical path: leave out --layout tracelens")


def write_books(tables: Mapping[str, Table], shown: Shown) -> None:
    """Write tables to the folder and the workbook that are asked for."""
    from tracelens_graph.output.files import replacing

    if shown.csv:
        write_tables(tables, shown.csv)
    if shown.xlsx:
        from tracelens_graph.reports.xlsx import write_xlsx

        with replacing(shown.xlsx) as file:
            write_xlsx(tables, file)
        say_written(f"wrote {_number(tables)} to {shown.xlsx}", shown.xlsx)


def write_files(
    tables: Mapping[str, Table], shown: Shown, as_json: Callable[[], str], as_markdown: Callable[[int | None], str]
) -> None:
    """Write tables, the JSON document and the page that are asked for.

    Args:
        tables: all tables.
        shown: what is asked for.
        as_json: makes the text of the document.
        as_markdown: makes the text of the page, of so many rows of each table.
    """
    from tracelens_graph.output.files import replacing

    write_books(tables, shown)
    if shown.json:
        with replacing(shown.json) as file:
            file.write(as_json().encode())
        say_written(f"wrote {_number(tables)} to {shown.json}", shown.json)
    if shown.markdown:
        with replacing(shown.markdown) as file:
            file.write(as_markdown(shown.top).encode("utf-8", "backslashreplace"))
        say_written(f"wrote a page to {shown.markdown}", shown.markdown)


def _number(tables: Mapping[str, Table]) -> str:
    return f"{len(tables)} {'table' if len(tables) == 1 else 'tables'}"
