"""The roofline as a picture: a web page that needs nothing else, with the tables that belong to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracelens_graph.analyses.performance.below_roof import below_roof
from tracelens_graph.analyses.performance.reached import positive, reached
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.page import COLORS, CONFIG, SYMBOLS, canvas, escaped, page, paragraphs, section
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import shorten

MOST_MARKS = 2000
"""Operations that are drawn; those with less time are counted below the picture."""

_LONGEST_NAME, _LONGEST_SHAPES = 100, 120
_PAGE_HEIGHT = 680
_GREATEST_MARK, _SMALLEST_MARK = 46, 5
"""Diameters in pixels."""

_PLOT_HEIGHT, _LABEL_HEIGHT = 500, 32
"""Pixels, about."""
_ROOF_COLORS = ("#222222", "#777777", "#aaaaaa", "#555555")

Record = Mapping[str, Any]


def roofline_html(ops: Table, summary: Table, missing: Table, arch: Architecture, source: str) -> str:
    """A page with the roofline of a device and the operations of a trace under it.

    Both axes are logarithmic: operations per byte moved, and operations per second reached, as means over calls.
    One mark per row of `unified_perf_summary` with operations and bytes, its area the share of GPU time, its colour
    the category. The roofs are those of the precisions that occur; their ridge is where memory stops to bound.

    Args:
        ops: `unified_perf_summary`, made for the device.
        summary: `roofline_summary`.
        missing: `unmodelled`.
        arch: the device.
        source: name of the trace.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    picture, notes = roofline_figure(ops, arch)
    title = f"Roofline of {source} on {arch.name}"
    blocks = [
        f"<h1>{escaped(title)}</h1>",
        canvas("roofline", _PAGE_HEIGHT),
        paragraphs(notes),
        _summary(summary),
        _most_to_win(below_roof(ops)),
        _moving([row for row in _modelled(ops) if not row["GFLOPS"]], arch),
        _without_model(missing),
    ]
    return page(title, blocks, {"roofline": picture})


def roofline_figure(ops: Table, arch: Architecture) -> tuple[dict[str, Any], list[str]]:
    """The picture as plotly.js takes it, and what is to be said of operations that are not in it.

    Args:
        ops: `unified_perf_summary`, made for the device.
        arch: the device.
    """
    records = _modelled(ops)
    drawn = [row for row in records if positive(row["FLOPS/Byte"]) and reached(row).tflops_s]
    marked = drawn[:MOST_MARKS]
    unknown = len(records) - len(drawn) - sum(1 for row in records if not row["GFLOPS"])
    notes = [f"{len(drawn) - len(marked):,} more operations are not drawn"] if len(drawn) > len(marked) else []
    if not drawn:
        notes.append("no operation with a model computes anything")
    if unknown:
        notes.append(f"{unknown:,} operations with a model are not drawn: their bytes or their time are not known")
    return _figure(marked, arch), notes


def _modelled(ops: Table) -> list[Record]:
    return [row for row in ops.records() if row["has_perf_model"]]


# --- the picture -----------------------------------------------------------------------------------------------------


def _figure(rows: Sequence[Record], arch: Architecture) -> dict[str, Any]:
    """The picture as plotly.js takes it."""
    roofs = device_roofs(rows, arch)
    across = _span([row["FLOPS/Byte"] for row in rows] + [ridge for *_, ridge in roofs])
    upwards = _span([_tflops(row) for row in rows] + [rate for _, rate, _ in roofs])
    lines, labels = _roof_lines(roofs, arch, across, upwards)
    axis = {"type": "log", "gridcolor": "#eeeeee", "minor": {"showgrid": False}, "dtick": 1, "zeroline": False,
            "showline": True, "linecolor": "#888888", "ticks": "outside", "exponentformat": "power"}  # fmt: skip
    return {
        "data": [*lines, *_marks(rows)],
        "layout": {
            "xaxis": axis | {"title": {"text": "FLOPs per byte"}, "range": [math.log10(end) for end in across]},
            "yaxis": axis | {"title": {"text": "TFLOPS/s"}, "range": [math.log10(end) for end in upwards]},
            "annotations": labels,
            "legend": {
                "title": {"text": "share of GPU time", "side": "left"},
                "itemsizing": "constant",
                "orientation": "h",
                "yanchor": "top",
                "y": -0.13,
            },
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
            "plot_bgcolor": "white",
            "margin": {"t": 30, "r": 210},
        },
        "config": CONFIG,
    }


def device_roofs(rows: Sequence[Record], arch: Architecture) -> list[tuple[str, float, float]]:
    """Precisions that occur, with rate and ridge; those with the same rate together, the greatest rate first."""
    by_rate: dict[float, list[str]] = {}
    for spec in sorted({row["Compute Spec"] for row in rows if row["Compute Spec"]}):
        rate = arch.rate(spec)
        if rate:
            by_rate.setdefault(rate.tflops, []).append(spec)
    bandwidth = arch.value("memory_bandwidth_gbps")
    if not bandwidth:
        return []
    return [(", ".join(specs), rate, rate * 1e3 / bandwidth) for rate, specs in sorted(by_rate.items(), reverse=True)]


def _roof_lines(
    roofs: Sequence[tuple[str, float, float]],
    arch: Architecture,
    across: tuple[float, float],
    upwards: tuple[float, float],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Lines and labels: the slope of the memory, and for each rate the level from its ridge on."""
    bandwidth = arch.value("memory_bandwidth_gbps")
    if not roofs or not bandwidth:
        return [], []
    begin, (_, top, greatest) = max(across[0], upwards[0] * 1e3 / bandwidth), roofs[0]
    middle = math.sqrt(begin * greatest)
    lines = [_line([begin, greatest], [begin * bandwidth / 1e3, top], _ROOF_COLORS[0])]
    slope = {"x": math.log10(middle), "xanchor": "right", "xshift": -8, "yanchor": "bottom"}
    labels = [_label(middle * bandwidth / 1e3, f"memory {bandwidth / 1e3:,.2f} TB/s", slope)]
    decade, free = _PLOT_HEIGHT / math.log10(upwards[1] / upwards[0]), math.inf
    for number, (specs, rate, ridge) in enumerate(roofs):
        color = _ROOF_COLORS[number % len(_ROOF_COLORS)]
        hover = f"ridge of {escaped(specs)}: {ridge:,.1f} FLOPs per byte"
        lines.append(_line([ridge, across[1]], [rate, rate], color, hover))
        text = f"{escaped(specs)}<br>{rate:,.1f} TFLOPS/s, ridge {ridge:,.1f}"
        height = decade * math.log10(rate)
        shift = min(0, free - height)  # labels of near roofs stand below each other
        place = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 5, "yanchor": "middle", "yshift": shift}
        labels.append(_label(rate, text, place))
        free = height + shift - _LABEL_HEIGHT
    return lines, labels


def _line(x: list[float], y: list[float], color: str, hover: str = "") -> dict[str, Any]:
    """A line; with a text for its first point, that point is marked."""
    found: dict[str, Any] = {"type": "scatter", "mode": "lines", "x": x, "y": y, "showlegend": False}
    found |= {"line": {"color": color, "width": 2}, "hoverinfo": "skip"}
    if hover:
        found |= {"mode": "lines+markers", "marker": {"color": color, "size": [8, 0]}}
        found |= {"hoverinfo": "text", "hovertext": [hover, ""]}
    return found


def _label(y: float, text: str, place: Mapping[str, Any]) -> dict[str, Any]:
    """A text beside a line, where no mark can be under it."""
    look: dict[str, Any] = {"showarrow": False, "align": "left", "font": {"size": 12, "color": "#444444"}}
    return {**look, "text": text, "y": math.log10(y), **place}


def _marks(rows: Sequence[Record]) -> list[dict[str, Any]]:
    """Marks of the operations, one trace of the picture per category, the one with the greatest time first."""
    time: dict[str, float] = {}
    for row in rows:
        time[row["op category"]] = time.get(row["op category"], 0) + row["Percentage (%)"]
    by_time = sorted(time, key=lambda category: -time[category])
    greatest = max((row["Percentage (%)"] for row in rows), default=0) or 1
    found = []
    for place, category in enumerate(by_time):
        own = [row for row in rows if row["op category"] == category]
        again, color = divmod(place, len(COLORS))
        found.append({
            "type": "scatter", "mode": "markers", "name": f"{escaped(category)} ({time[category]:.1f} %)",
            "x": [row["FLOPS/Byte"] for row in own], "y": [_tflops(row) for row in own],
            "hoverinfo": "text", "hovertext": [_hover(row) for row in own],
            "marker": {
                "color": COLORS[color], "symbol": SYMBOLS[again % len(SYMBOLS)], "opacity": 0.65,
                "line": {"color": "white", "width": 1},
                "size": [row["Percentage (%)"] for row in own], "sizemode": "area", "sizemin": _SMALLEST_MARK / 2,
                "sizeref": 2 * greatest / _GREATEST_MARK**2,
            },
        })  # fmt: skip
    return found


def _hover(row: Record) -> str:
    """What is said of a mark, in the few tags that plotly.js knows."""
    roof = reached(row).percent_of_roof
    time, share = row["Kernel Time (µs)_sum"] / 1e3, row["Percentage (%)"]
    lines = [
        f"<b>{escaped(_name(row))}</b>",
        escaped(_shapes(row["Input Dims"])),
        escaped(", ".join(filter(None, (_types(row), row["Compute Spec"])))),
        f"calls: {row['operation_count']:,}, {time:,.3f} ms ({share:.2f} %)",
        f"{row['FLOPS/Byte']:,.2f} FLOPs per byte, {_tflops(row):,.3f} TFLOPS/s",
        f"{roof:,.1f} % of the roof; {_bound(row)} bounds" if roof else "no roof",
    ]
    return "<br>".join(lines)


def _span(values: Iterable[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis with room for labels."""
    positive = [value for value in values if value > 0]
    return (min(positive) / 2.5, max(positive) * 2.5) if positive else (0.1, 1000.0)


# --- the tables ------------------------------------------------------------------------------------------------------


def _summary(table: Table) -> str:
    header = ("part", "time ms", "%", "at roof ms", "could be won ms", "what it is")
    rows = [
        (row["part"], _ms(row["time_ms"]), f"{row['percent']:.2f}", _ms(row["at_roof_ms"]), _ms(row["could_be_won_ms"]),
         row["meaning"])
        for row in table.records()
    ]  # fmt: skip
    return section(table.title, header, rows, table.notes)


def _most_to_win(below: Table) -> str:
    header = ("operation", "shapes", "calls", "time ms", "could be won ms", "% of roof", "bound")
    rows = [
        (shorten(row["op"], _LONGEST_NAME), _shapes(row["input_dims"]), f"{row['calls']:,}",
         _ms(row["time_ms"]), _ms(row["could_be_won_ms"]), f"{row['percent_of_roof']:.1f}", row["bound"])
        for row in below.records()
    ]  # fmt: skip
    return section("Where most could be won", header, rows)


def _moving(rows: Sequence[Record], arch: Architecture) -> str:
    bandwidth = arch.value("memory_bandwidth_gbps")
    header = ("operation", "shapes", "calls", "time ms", "TB/s", "% of bandwidth")
    cells = [
        (_name(row), _shapes(row["Input Dims"]), f"{row['operation_count']:,}", _ms(row["Kernel Time (µs)_sum"] / 1e3),
         f"{rate:.3f}" if (rate := reached(row).tb_s) else "",
         f"{100e3 * rate / bandwidth:.1f}" if bandwidth and rate else "")
        for row in rows
    ]  # fmt: skip
    return section("Operations that move data and compute nothing", header, cells)


def _without_model(table: Table) -> str:
    header = ("operation", "why", "GPU events", "time ms", "%")
    rows = [
        (row["op"], row["reason"], f"{row['gpu_events']:,}", _ms(row["gpu_sum_ms"]), f"{row['percent']:.2f}")
        for row in table.records()
    ]
    return section(table.title, header, rows, table.notes)


# --- texts -----------------------------------------------------------------------------------------------------------


def _name(row: Record) -> str:
    return shorten(str(row["name"]), _LONGEST_NAME)


def _shapes(input_dims: Sequence[Any] | None) -> str:
    """Sizes of the tensors among the inputs, short: `[8, 16] [32, 16]`."""
    return shorten(" ".join(str(dims) for dims in input_dims or () if dims), _LONGEST_SHAPES)


def _types(row: Record) -> str:
    types = [str(name).removeprefix("c10::") for name in row["Input type"] or [] if name and name != "Scalar"]
    return shorten(", ".join(dict.fromkeys(types)), _LONGEST_SHAPES)


def _bound(row: Record) -> str:
    """`compute` or `memory`."""
    return str(row["Roofline Bound"] or "").removesuffix("_BOUND").lower()


def _ms(value: float) -> str:
    return "" if math.isnan(value) else f"{value:,.3f}"


def _tflops(row: Record) -> float:
    """What the calls of an operation that is drawn reach together."""
    return reached(row).tflops_s or 0.0
