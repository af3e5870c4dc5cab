"""Still pictures, PNG or SVG, for a page or a chat."""

from __future__ import annotations

from typing import Any

from tracelens_graph.errors import MissingExtraError
from tracelens_graph.output.markers import COMMENT, GENERATOR
from tracelens_graph.utils.texts import printable, shorten

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31")
"""Told apart by those who see colours differently: M. Okabe, K. Ito, Color Universal Design (2008)."""
MARKERS = ("o", "D", "s", "P")
"""One after the other, where there are more things than colours."""
GREY = "#444444"

_DOTS_PER_INCH = 150
_LONGEST = 400


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


def literal(text: str, longest: int = _LONGEST) -> str:
    """Text that matplotlib draws as it is: without formulas, which it reads between dollar signs."""
    return printable(shorten(text, longest)).replace("$", r"\$")


def legend(text: str, longest: int = _LONGEST) -> str:
    """Text for a legend of matplotlib, which leaves out what begins with an underscore."""
    return f" {literal(text, longest)}"


def look(place: int) -> dict[str, Any]:
    """Colour and shape of the marks of the first, second, ... thing in a picture."""
    again, color = divmod(place, len(COLORS))
    return {"c": COLORS[color], "marker": MARKERS[again % len(MARKERS)]}


def bare(axes: Any, grid: bool = True) -> None:
    """Axes without a frame, with lines of a grid below all that is drawn."""
    if grid:
        axes.grid(color="#eeeeee")
        axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def saved(canvas: Any, form: str, name: str) -> bytes:
    """The file of a picture.

    Args:
        canvas: a figure of matplotlib.
        form: png or svg.
        name: of what it shows, for the ids in it.
    """
    from io import BytesIO

    drawn = BytesIO()
    if form == "png":
        canvas.savefig(drawn, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": GENERATOR})
        return drawn.getvalue()
    import matplotlib

    # Texts stay texts; without a date, equal pictures are equal files.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        canvas.savefig(drawn, format="svg", metadata={"Date": None, "Creator": GENERATOR})
    prolog, _, rest = drawn.getvalue().partition(b"\n")
    return prolog + b"\n" + COMMENT.encode() + rest
