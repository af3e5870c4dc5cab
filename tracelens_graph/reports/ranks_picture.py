"""The ranks of a job as a still picture, PNG or SVG: what the web page draws, without its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.reports.picture import SHAPES, drawing_library, legend, literal, plain, save
from tracelens_graph.reports.ranks_drawings import Drawing, drawings
from tracelens_graph.reports.ranks_text import headline, late_lines
from tracelens_graph.utils.texts import shorten, wrapped

_WIDTH, _PIXELS_PER_INCH = 12.5, 100
_ABOVE, _LINE, _REST = 0.9, 0.17, 0.3
"""Inches for title, legend and ticks of a drawing, for a line of text, and for what is left."""
_CHARACTERS = 150
"""Of a line."""
_POINTS_PER_PIXEL = 0.75
_MOST_LABELS = 50
_LONGEST_TITLE = 90
_SHAPES = {**SHAPES, "line-ns-open": "|"}


def write_ranks_picture(job: Job, source: str, form: str, file: BinaryIO) -> None:
    """Draw who waits for whom, bandwidths of collectives, and one step over all ranks.

    Args:
        job: the ranks.
        source: what the traces are called together.
        form: one of `picture.FORMATS`.
        file: where to.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    everything = drawings(job)
    shown = [one for one in everything if one.figure]
    heights = [one.height / _PIXELS_PER_INCH + _ABOVE for one in shown]
    head = [f"Ranks of {shorten(source, _LONGEST_TITLE)}", headline(job), *late_lines(job)]
    lines = [line for paragraph in head for line in wrapped(paragraph, _CHARACTERS, "  ")]
    notes = [line for one in everything for note in one.notes for line in wrapped(note, _CHARACTERS, "  ")]
    height = sum(heights) + _LINE * (len(lines) + len(notes)) + _REST
    canvas = drawing_library()(figsize=(_WIDTH, height), layout="constrained")
    canvas.suptitle("\n".join(map(literal, lines)), x=0.01, ha="left", fontsize=10)
    if shown:
        grid = canvas.add_gridspec(len(shown), 2, width_ratios=(0.72, 0.28), height_ratios=heights)
    for row, one in enumerate(shown):
        _draw(canvas, [grid[row, 0], grid[row, 1], grid[row, :]], one)
    if notes:
        canvas.supxlabel("\n".join(map(literal, notes)), x=0.01, ha="left", fontsize=8, color="#444444")
    save(canvas, form, "ranks", file)


def _draw(canvas: Any, places: Sequence[Any], drawing: Drawing) -> None:
    """One drawing in its place: left, right, or over both."""
    figure = drawing.figure or {}
    layout, own = figure["layout"], [part for part in figure["data"] if "xaxis" not in part]
    beside = [part for part in figure["data"] if "xaxis" in part]
    axes = canvas.add_subplot(places[0] if beside else places[2])
    heat = next((part for part in own if part["type"] == "heatmap"), None)
    axis = {name: _Axis(layout[f"{name}axis"], heat[name] if heat else ()) for name in "xy"}
    if heat:
        _draw_heat(canvas, axes, heat)
    for order, part in enumerate(own):
        if part["type"] == "bar":
            _draw_bars(axes, part, order + 1)
        elif part["type"] == "scatter":
            _draw_scatter(axes, part, axis["x"].places(part["x"]), axis["y"].places(part["y"]), order + 1)
    axis["x"].set(axes.xaxis, axes.set_xscale, axes.set_xlim)
    axis["y"].set(axes.yaxis, axes.set_yscale, axes.set_ylim)
    for band in layout.get("shapes", ()):
        axes.axhspan(band["y0"], band["y1"], color=band["fillcolor"], linewidth=0, zorder=0)
    if not heat and not layout.get("shapes"):
        axes.grid(color=layout["xaxis"]["gridcolor"])
        axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(literal(drawing.title), loc="left", fontsize=11, fontweight="bold", pad=24)
    if layout["showlegend"] and axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False, fontsize=8, borderaxespad=0.1)
    for part in beside:
        second = canvas.add_subplot(places[1], sharey=axes)
        second.barh(range(len(part["x"])), part["x"], height=0.75, color=part["marker"]["color"])
        second.set_xlabel(plain(layout["xaxis2"]["title"]["text"]), fontsize=9)
        second.tick_params(labelleft=False, labelsize=8)
        second.spines[["top", "right"]].set_visible(False)


def _draw_heat(canvas: Any, axes: Any, part: Mapping[str, Any]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("waits", [tuple(stop) for stop in part["colorscale"]])
    values = np.ma.masked_invalid(np.array(part["z"], float))
    image = axes.imshow(
        values, aspect="auto", cmap=colors, vmin=part["zmin"], vmax=part["zmax"], interpolation="nearest"
    )
    bar = canvas.colorbar(image, ax=axes, location="right", fraction=0.04, pad=0.01)
    bar.set_label(plain(part["colorbar"]["title"]["text"]), fontsize=8)
    bar.ax.tick_params(labelsize=8)


def _draw_bars(axes: Any, part: Mapping[str, Any], order: int) -> None:
    lanes: dict[float, list[tuple[float, float]]] = {}
    for middle, begin, length in zip(part["y"], part["base"], part["x"], strict=True):
        lanes.setdefault(middle, []).append((begin, length))
    names = iter([legend(part["name"])])  # once in the legend
    for middle, spans in lanes.items():
        axes.broken_barh(
            spans, (middle - part["width"] / 2, part["width"]), color=part["marker"]["color"], linewidth=0,
            label=next(names, None), zorder=order,
        )  # fmt: skip


def _draw_scatter(axes: Any, part: Mapping[str, Any], x: np.ndarray, y: np.ndarray, order: int) -> None:
    if part["mode"] == "lines":
        line = part["line"]
        style, width = "--" if line.get("dash") else "-", line["width"] * _POINTS_PER_PIXEL
        axes.plot(x, y, style, color=line["color"], linewidth=width, label=legend(part["name"]), zorder=order)
        return
    marker = part["marker"]
    is_open = marker["symbol"].endswith("-open")
    axes.scatter(
        x, y, s=(marker["size"] * _POINTS_PER_PIXEL) ** 2, c=marker["color"], marker=_SHAPES[marker["symbol"]],
        alpha=marker.get("opacity"), linewidths=marker["line"]["width"] * _POINTS_PER_PIXEL,
        edgecolors=None if is_open else "white", label=legend(part["name"]), zorder=order,
    )  # fmt: skip


class _Axis:
    """An axis as plotly.js takes it, for matplotlib.

    Args:
        layout: what plotly.js is told of it.
        names: what stands on it, where these are names and not numbers.
    """

    def __init__(self, layout: Mapping[str, Any], names: Sequence[str]) -> None:
        self._layout = layout
        self._names = names
        self._place_of = {name: place for place, name in enumerate(names)}

    def places(self, values: Sequence[Any]) -> np.ndarray:
        """Numbers for values on it; NaN for None."""
        return np.array([self._place_of[value] for value in values] if self._names else values, float)

    def set(self, axis: Any, set_scale: Callable[..., Any], set_limits: Callable[..., Any]) -> None:
        """Set scale, ends, ticks and title."""
        layout, is_log = self._layout, self._layout.get("type") == "log"
        if is_log:
            set_scale("log")
        if "range" in layout:
            set_limits(*(10**end if is_log else end for end in layout["range"]))
        texts = self._names or layout.get("ticktext", ())
        if texts:
            ticks = layout.get("tickvals", range(len(texts)))
            every = -(-len(texts) // _MOST_LABELS)
            axis.set_ticks(list(ticks)[::every], [plain(one) for one in texts[::every]])
            axis.set_minor_locator(_no_ticks())
        elif is_log:
            axis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_tick_params(labelsize=8)
        axis.set_label_text(plain(layout.get("title", {}).get("text", "")), fontsize=9)


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
