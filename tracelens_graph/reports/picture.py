"""Still pictures, PNG or SVG, for a page or a chat."""

from __future__ import annotations

import re
from html import unescape
from typing import Any, BinaryIO

from tracelens_graph.errors import MissingExtraError
from tracelens_graph.output.marks import COMMENT, GENERATOR
from tracelens_graph.utils.texts import printable

FORMATS = ("png", "svg")

SHAPES = {"circle": "o", "diamond": "D", "square": "s", "cross": "P"}
"""matplotlib's names for plotly's symbols."""

_DOTS_PER_INCH = 150
_TAG = re.compile(r"<(?:br|b|/b)>")


def drawing_library() -> Any:
    """matplotlib's figure, which draws without a display.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    return Figure


def plain(text: str, keep_lines: bool = False) -> str:
    """Text of a page as matplotlib draws it: no tags, and no formulas, which it reads between dollar signs."""
    lines = [literal(unescape(_TAG.sub("", line))) for line in text.split("\n")]
    return ("\n" if keep_lines else " ").join(lines)


def legend(text: str) -> str:
    """Text of a page for a legend of matplotlib, which leaves out what begins with an underscore."""
    return f" {plain(text)}"


def literal(text: str) -> str:
    """Text that matplotlib draws as it is."""
    return printable(text).replace("$", r"\$")


def save(canvas: Any, form: str, name: str, file: BinaryIO) -> None:
    """Write a picture.

    Args:
        canvas: a figure of matplotlib.
        form: one of `FORMATS`.
        name: of what it shows, for the ids in it.
        file: where to.
    """
    if form == "png":
        canvas.savefig(file, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": GENERATOR})
        return
    from io import BytesIO

    import matplotlib

    drawn = BytesIO()
    # Texts stay texts; without a date, equal pictures are equal files.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        canvas.savefig(drawn, format="svg", metadata={"Date": None, "Creator": GENERATOR})
    prolog, _, rest = drawn.getvalue().partition(b"\n")
    file.write(prolog + b"\n" + COMMENT.encode() + rest)
