"""A web page with drawings and tables that needs nothing else.

Names come from a trace, so nothing on the page may obey them: texts are escaped, and the page's own policy lets a
browser run the two scripts that it was written with, load nothing, and send nothing.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any

from tracelens_graph.errors import MissingExtraError
from tracelens_graph.output.marks import GENERATOR
from tracelens_graph.utils.texts import printable, shorten

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31")
"""Told apart by those who see colours differently: M. Okabe, K. Ito, Color Universal Design (2008)."""
SYMBOLS = ("circle", "diamond", "square", "cross")
"""One after the other, where there are more things than colours."""

CONFIG = {"responsive": True, "displaylogo": False, "showLink": False, "plotlyServerURL": ""}
"""Settings of plotly.js: nothing leads away from the page."""

_LONGEST = 400
_ROWS = 30
"""Rows of a table."""
_NUMBER = re.compile(r"-?[\d,]+(?:\.\d+)?", re.ASCII)

_STYLE = """
body { font: 15px/1.4 Helvetica, Arial, sans-serif; color: #222; background: #fff; margin: 1.5em auto;
  max-width: 1250px; padding: 0 1em }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse; font-size: 13px }
th, td { padding: 3px 10px; text-align: left; border-bottom: 1px solid #ddd }
th { white-space: nowrap } td:nth-child(-n+2) { overflow-wrap: anywhere }
.number { text-align: right } td.number { white-space: nowrap }
p { font-size: 13px; color: #444; margin: 0.3em 0 }
"""


def drawing_library() -> str:
    """The program text of plotly.js, which draws in the browser.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingExtraError("plotly", "plot") from None
    return str(get_plotlyjs())


def page(title: str, blocks: Iterable[str], figures: Mapping[str, Mapping[str, Any]]) -> str:
    """A page.

    Args:
        title: what the browser calls it.
        blocks: HTML, one after the other; empty ones are left out.
        figures: drawings by the id of their place (see `canvas`), as plotly.js takes them: data, layout and config.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    scripts = (drawing_library(), _drawing(figures))
    allowed = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    return "\n".join(
        (
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{GENERATOR}">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<title>{escaped(title)}</title><style>{_STYLE}</style></head>",
            "<body>",
            *filter(None, blocks),
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        )
    )


def _drawing(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """The script that draws; no text in it can end it."""
    told = json.dumps(figures, allow_nan=False)
    for character in "<>&":
        told = told.replace(character, f"\\u{ord(character):04x}")
    draw = "for (const [id, one] of Object.entries(figures)) Plotly.newPlot(id, one.data, one.layout, one.config);"
    return f"const figures = {told};\n{draw}"


def canvas(name: str, height: int) -> str:
    """Where a drawing stands.

    Args:
        name: id of the element.
        height: pixels.
    """
    return f'<div id="{name}" style="height: {height}px"></div>'


def paragraphs(notes: Iterable[str]) -> str:
    """One paragraph per note."""
    return "\n".join(f"<p>{escaped(note)}</p>" for note in notes)


def section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A heading, a table of texts and its notes; nothing without rows. Columns of numbers stand to the right."""
    if not rows:
        return ""
    more = [f"{len(rows) - _ROWS:,} more rows"] if len(rows) > _ROWS else []
    numbers = [
        any(cells) and all(not cell or _NUMBER.fullmatch(cell) for cell in cells) for cells in zip(*rows, strict=True)
    ]
    lines = [
        f"<h2>{escaped(title)}</h2>",
        "<table>",
        _row("th", header, numbers),
        *(_row("td", row, numbers) for row in rows[:_ROWS]),
        "</table>",
    ]
    return "\n".join(filter(None, [*lines, paragraphs((*more, *notes))]))


def _row(tag: str, cells: Iterable[str], numbers: Iterable[bool]) -> str:
    begins = (f'<{tag} class="number">' if is_number else f"<{tag}>" for is_number in numbers)
    return (
        "<tr>" + "".join(f"{begin}{escaped(cell)}</{tag}>" for begin, cell in zip(begins, cells, strict=True)) + "</tr>"
    )


def escaped(words: str, longest: int = _LONGEST) -> str:
    """Text without anything that a browser, or plotly.js, would obey. For contents of elements, not for attributes."""
    return escape(printable(shorten(words, longest)), quote=False)
