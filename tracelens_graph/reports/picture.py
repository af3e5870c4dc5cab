"""Still pictures, PNG or SVG, for a page or a chat: how all of them look, and the roofline."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracelens_graph.analyses.performance.roofline_points import RooflinePoints
from tracelens_graph.errors import MissingExtraError
from tracelens_graph.output.files import COMMENT, GENERATOR
from tracelens_graph.utils.texts import printable, shorten

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31")
"""Distinct also for those who see colours differently: M. Okabe, K. Ito, Color Universal Design (2008)."""
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


# --- roofline -------------------------------------------------------------------------------------------------------


_SIZE = (11.5, 6.5)
"""Inches."""
_GREATEST_MARK, _SMALLEST_MARK = 34.5, 3.75
"""Diameters in points."""
_PLOT_HEIGHT, _LABEL_HEIGHT = 375, 24
"""Points, about."""
_ROOF_COLORS = ("#222222", "#777777", "#aaaaaa", "#555555")
_LONGEST_TITLE = 90


def roofline_picture(shown: RooflinePoints, title: str) -> Any:
    """A figure of matplotlib: FLOPs per byte across, TFLOP/s upwards, both axes logarithmic.

    The area of a mark is the operation's share of the GPU time, its colour and shape the category.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    canvas = drawing_library()(figsize=_SIZE, layout="constrained")
    axes = canvas.add_subplot()
    across = _ends([*(one.x for one in shown.points), *(roof.ridge for roof in shown.roofs)])
    upwards = _ends([*(one.y for one in shown.points), *(roof.tflops for roof in shown.roofs)])
    axes.set(xscale="log", yscale="log", xlim=across, ylim=upwards, ylabel="TFLOP/s")
    axes.set_xlabel("\n".join(["FLOPs per byte", *map(literal, shown.notes)]))
    axes.set_title(literal(title, _LONGEST_TITLE), loc="left")
    bare(axes)
    if shown.roofs and shown.bandwidth:
        _draw_roofs(axes, shown, shown.bandwidth, across, upwards)
    _draw_points(axes, shown)
    if shown.points:
        key = canvas.legend(loc="outside lower center", ncols=3, frameon=False, title="share of GPU time")
        for handle in key.legend_handles:
            handle.set_sizes([40])
    return canvas


def _draw_roofs(
    axes: Any, shown: RooflinePoints, bandwidth: float, across: tuple[float, float], upwards: tuple[float, float]
) -> None:
    """The slope of the memory, and for each rate the level from its ridge on, with labels where no mark can be."""
    begin, most = max(across[0], upwards[0] * 1e3 / bandwidth), shown.roofs[0]
    axes.plot([begin, most.ridge], [begin * bandwidth / 1e3, most.tflops], color=_ROOF_COLORS[0], lw=2, zorder=1)
    middle = math.sqrt(begin * most.ridge)
    beside = {"textcoords": "offset points", "fontsize": 9, "color": GREY}
    axes.annotate(
        f"memory {bandwidth / 1e3:,.2f} TB/s", (middle, middle * bandwidth / 1e3), (-6, 0), ha="right", va="bottom",
        **beside,
    )  # fmt: skip
    decade, free = _PLOT_HEIGHT / math.log10(upwards[1] / upwards[0]), math.inf
    for number, roof in enumerate(shown.roofs):
        color = _ROOF_COLORS[number % len(_ROOF_COLORS)]
        axes.plot([roof.ridge, across[1]], [roof.tflops] * 2, color=color, lw=2, zorder=1)
        height = decade * math.log10(roof.tflops)
        shift = min(0, free - height)  # labels of near roofs stand below each other
        axes.annotate(
            f"{literal(roof.label)}\n{roof.tflops:,.1f} TFLOP/s, ridge {roof.ridge:,.1f}", (1, roof.tflops), (4, shift),
            xycoords=("axes fraction", "data"), ha="left", va="center", **beside,
        )  # fmt: skip
        free = height + shift - _LABEL_HEIGHT


def _draw_points(axes: Any, shown: RooflinePoints) -> None:
    """Marks, category by category, the one with the greatest time first."""
    time: dict[str, float] = {}
    for point in shown.points:
        time[point.category] = time.get(point.category, 0) + point.percent
    greatest = max((point.percent for point in shown.points), default=0) or 1
    for place, category in enumerate(sorted(time, key=lambda category: -time[category])):
        own = [point for point in shown.points if point.category == category]
        shares = np.array([point.percent for point in own]) / greatest
        axes.scatter(
            [point.x for point in own], [point.y for point in own],
            s=np.maximum(_GREATEST_MARK**2 * shares, _SMALLEST_MARK**2), alpha=0.65, edgecolors="white",
            linewidths=0.7, label=legend(f"{category} ({time[category]:.1f} %)"), zorder=2, **look(place),
        )  # fmt: skip


def _ends(values: Iterable[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis with room for labels."""
    known = [value for value in values if value > 0]
    return (min(known) / 2.5, max(known) * 2.5) if known else (0.1, 1000.0)
