"""The option `--output` of commands that draw."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.options import Written
from tracelens_graph.output.files import is_stdout

PAGE = "html"

Drawn = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        show_default=False,
        help="Draw it: .html, a page for a browser with tables; .png or .svg, a picture.",
    ),
    Written(),
]


def drawn_as(output: Path) -> str:
    """What is to be drawn, `PAGE` or a format of pictures; their library is looked for before large traces are read.

    Raises:
        typer.BadParameter: the suffix is that of nothing that is drawn.
        MissingExtraError: the library of pictures is not installed.
    """
    from tracelens_graph.reports import picture

    form = output.suffix.lower().lstrip(".")
    if form in ("htm", PAGE) or is_stdout(output) or (output.exists() and not output.is_file()):
        return PAGE
    if form not in picture.FORMATS:
        raise typer.BadParameter(f"--output: {output}: name a file .{PAGE}, .png or .svg")
    picture.drawing_library()
    return form
