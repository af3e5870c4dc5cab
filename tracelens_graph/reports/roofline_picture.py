"""The roofline as a still picture, PNG or SVG, for a page or a chat: what the web page draws, without its tables."""

from __future__ import annotations

from typing import Any, BinaryIO

from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.picture import SHAPES, drawing_library, legend, plain, save
from tracelens_graph.reports.roofline_html import roofline_figure
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import shorten

_SIZE = (11.5, 6.5)
"""Inches."""
_POINTS_PER_PIXEL = 0.75
_LONGEST_TITLE = 90


def write_roofline_picture(ops: Table, arch: Architecture, source: str, form: str, file: BinaryIO) -> None:
    """Draw the roofline of a device and the operations of a trace under it.

    Args:
        ops: `unified_perf_summary`, made for the device.
        arch: the device.
        source: name of the trace.
        form: one of `picture.FORMATS`.
        file: where to.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    canvas = drawing_library()(figsize=_SIZE, layout="constrained")
    picture, notes = roofline_figure(ops, arch)
    axes = canvas.add_subplot()
    axes.set(xscale="log", yscale="log", xlabel="FLOPs per byte", ylabel="TFLOPS/s")
    axes.set_title(plain(shorten(f"Roofline of {source} on {arch.name}", _LONGEST_TITLE)), loc="left")
    axes.grid(color="#eeeeee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for part in picture["data"]:
        if part["mode"] == "markers":
            _draw_marks(axes, part)
        else:
            axes.plot(part["x"], part["y"], color=part["line"]["color"], linewidth=part["line"]["width"], zorder=1)
    layout = picture["layout"]
    axes.set_xlim(*(10**end for end in layout["xaxis"]["range"]))
    axes.set_ylim(*(10**end for end in layout["yaxis"]["range"]))
    for label in layout["annotations"]:
        _write_label(axes, label)
    if axes.get_legend_handles_labels()[0]:
        legend = canvas.legend(loc="outside lower center", ncols=3, frameon=False, title="share of GPU time")
        for handle in legend.legend_handles:
            handle.set_sizes([40])
    if notes:
        canvas.supxlabel(plain("; ".join(notes)), fontsize=8, color="#444444")
    save(canvas, form, "roofline", file)


def _draw_marks(axes: Any, part: dict[str, Any]) -> None:
    marker = part["marker"]
    # plotly's areas: the diameter in pixels is the root of twice the size over `sizeref`.
    smallest = (2 * marker["sizemin"]) ** 2
    areas = [max(2 * size / marker["sizeref"], smallest) * _POINTS_PER_PIXEL**2 for size in marker["size"]]
    axes.scatter(
        part["x"], part["y"], s=areas, c=marker["color"], marker=SHAPES[marker["symbol"]], alpha=marker["opacity"],
        edgecolors="white", linewidths=0.7, label=legend(part["name"]), zorder=2,
    )  # fmt: skip


def _write_label(axes: Any, label: dict[str, Any]) -> None:
    in_paper = label.get("xref") == "paper"
    axes.annotate(
        plain(label["text"].replace("<br>", "\n"), keep_lines=True),
        xy=(label["x"] if in_paper else 10 ** label["x"], 10 ** label["y"]),
        xycoords=("axes fraction" if in_paper else "data", "data"),
        xytext=(label.get("xshift", 0) * _POINTS_PER_PIXEL, label.get("yshift", 0) * _POINTS_PER_PIXEL),
        textcoords="offset points", ha=label["xanchor"], va={"middle": "center"}.get(label["yanchor"], "bottom"),
        fontsize=9, color=label["font"]["color"],
    )  # fmt: skip
