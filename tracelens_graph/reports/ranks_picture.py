"""The ranks of a job as a still picture, PNG or SVG: what the web page draws, without its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.collective_tables import shown_bytes
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.pictures import WHOLE, BandwidthPoints, PairMatrix, StepLanes, WaitMap
from tracelens_graph.graph.ranks import rank_titles
from tracelens_graph.reports.html.ranks import lane_columns, part_columns
from tracelens_graph.reports.picture import GREY, bare, drawing_library, legend, literal, look
from tracelens_graph.reports.ranks_text import headline, late_lines
from tracelens_graph.utils.texts import shorten, wrapped

_WIDTH = 12.5
_HEAT_ROW, _HEAT_LEAST, _HEAT_MOST = 0.24, 1.5, 9.0
_LANE, _LANES_LEAST, _LANES_MOST = 0.34, 1.1, 10.0
_BANDWIDTHS = 3.0
_ABOVE, _LINE, _REST = 0.9, 0.17, 0.3
"""Inches for title, legend and ticks of a drawing, for a line of text, and for what is left."""
_CHARACTERS = 150
"""Of a line."""
_MOST_LABELS = 50
_LONGEST_TITLE, _LONGEST_LABEL, _LONGEST_KIND = 90, 24, 60

_COMPUTING, _WAITING, _MOVING, _LATE = "#0072b2", "#e69f00", "#009e73", "#d55e00"
_WAITS = ("#fff7e6", "#fbd58a", "#e69f00", "#a86400", "#4a2800")
"""From no waiting to the most."""
_UPPER, _LOWER, _BAR = -0.21, 0.21, 0.38
"""In a lane: middle of the computing, middle of the collectives, and the height of both."""
_DIAMOND = {"marker": "D", "s": 46, "c": _LATE, "edgecolors": "white", "linewidths": 0.75}
"""Marks of ranks that hold up the others."""

Draw = Callable[[Any, Sequence[Any]], None]
"""Takes the canvas and three places in it: left, right, and over both."""


@dataclass(frozen=True)
class Drawing:
    """A drawing.

    Attributes:
        title: what it shows.
        height: of its axes, inches.
        notes: what it does not show.
        draw: draws it; None where there is nothing to draw, and only notes.
    """

    title: str
    height: float
    notes: list[str]
    draw: Draw | None


def ranks_picture(job: Job, source: str) -> Any:
    """Who waits for whom, bandwidths of collectives, and one step over all ranks, as a figure of matplotlib.

    Args:
        source: what the traces are called together.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    everything = drawings(job)
    shown = [one for one in everything if one.draw]
    heights = [one.height + _ABOVE for one in shown]
    head = [f"Ranks of {shorten(source, _LONGEST_TITLE)}", headline(job), *late_lines(job)]
    lines = _wrapped(head)
    notes = _wrapped(note for one in everything for note in one.notes)
    height = sum(heights) + _LINE * (len(lines) + len(notes)) + _REST
    canvas = drawing_library()(figsize=(_WIDTH, height), layout="constrained")
    canvas.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10)
    if shown:
        grid = canvas.add_gridspec(len(shown), 2, width_ratios=(0.72, 0.28), height_ratios=heights)
    for row, one in enumerate(shown):
        if one.draw:
            one.draw(canvas, [grid[row, 0], grid[row, 1], grid[row, :]])
    if notes:
        canvas.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=8, color=GREY)
    return canvas


def _wrapped(paragraphs: Iterable[str]) -> list[str]:
    return [literal(line) for paragraph in paragraphs for line in wrapped(paragraph, _CHARACTERS, "  ")]


def drawings(job: Job) -> list[Drawing]:
    """The drawings of a job: waits and bandwidths where ranks share collectives, one step where anything took time."""
    lanes = StepLanes.of(job)
    shared = []
    if len(job.matched):
        shared = [_waits(WaitMap.of(job)), _bandwidths(BandwidthPoints.of(job)), _pairs(PairMatrix.of(job), job)]
    return [*shared, *([_step(lanes, job)] if lanes.end_ns > lanes.begin_ns else [])]


def _titled(axes: Any, title: str, grid: bool = True) -> None:
    """What all axes have; a legend of what is drawn in them stands above."""
    bare(axes, grid)
    axes.tick_params(labelsize=8)
    axes.set_title(literal(title), loc="left", fontsize=11, fontweight="bold", pad=24)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False, fontsize=8, borderaxespad=0.1)


def _name_ticks(axis: Any, names: Sequence[str]) -> None:
    """Names at 0, 1, 2, ...; of many some."""
    every = -(-len(names) // _MOST_LABELS)
    axis.set_ticks(range(0, len(names), every), [literal(name) for name in names[::every]])


def labels_of(names: Sequence[str]) -> list[str]:
    """Names for an axis: short, and where that makes two of them equal, numbered."""
    short = [shorten(name, _LONGEST_LABEL) for name in names]
    if len(set(short)) == len(short):
        return short
    return [f"{place}: {label}" for place, label in enumerate(short)]


def _waits(waits: WaitMap) -> Drawing:
    """A heat map of exposed waiting; beside it, how long each rank held up the others."""
    title = f"Waiting by rank{'' if waits.steps == [WHOLE] else ' and step'}, and who holds the others up"

    def draw(canvas: Any, places: Sequence[Any]) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        axes = canvas.add_subplot(places[0])
        image = axes.imshow(
            np.ma.masked_invalid(waits.wait_ms), aspect="auto", interpolation="nearest", vmin=0,
            vmax=float(np.nanmax(waits.wait_ms, initial=0.0)) or 1.0,
            cmap=LinearSegmentedColormap.from_list("waits", _WAITS),
        )  # fmt: skip
        bar = canvas.colorbar(image, ax=axes, location="right", fraction=0.04, pad=0.01)
        bar.set_label("exposed waiting, ms", fontsize=8)
        bar.ax.tick_params(labelsize=8)
        steps = np.flatnonzero(waits.late >= 0)
        if len(steps):
            axes.scatter(steps, waits.late[steps], label="held the others up most", **_DIAMOND)
        axes.set(xlim=(-0.5, len(waits.steps) - 0.5), ylim=(len(waits.labels) - 0.5, -0.5))
        axes.set_xlabel("" if waits.steps == [WHOLE] else "step", fontsize=9)
        _name_ticks(axes.xaxis, waits.steps)
        _name_ticks(axes.yaxis, labels_of(waits.labels))
        _titled(axes, title, grid=False)
        second = canvas.add_subplot(places[1], sharey=axes)
        second.barh(range(len(waits.labels)), waits.all_held_up_ms, height=0.75, color=_LATE)
        second.set_xlabel("held the others up, ms", fontsize=9)
        second.tick_params(labelleft=False, labelsize=8)
        bare(second, grid=False)

    return Drawing(title, min(max(_HEAT_ROW * len(waits.ranks), _HEAT_LEAST), _HEAT_MOST), waits.notes, draw)


def _bandwidths(points: BandwidthPoints) -> Drawing:
    """Bus bandwidth against message size, one mark per collective, and the rate of the links."""
    title = "Bus bandwidth by size of the message"

    def draw(canvas: Any, places: Sequence[Any]) -> None:
        axes = canvas.add_subplot(places[2])
        sizes = [row["message_bytes"] for rows in points.kinds.values() for row in rows]
        least, most = min(sizes) / 2, max(sizes) * 2
        for place, (kind, rows) in enumerate(points.kinds.items()):
            axes.scatter(
                [row["message_bytes"] for row in rows], [row["busbw_gb_s"] for row in rows], s=36, alpha=0.6,
                edgecolors="white", linewidths=0.75, label=legend(f"{kind} ({len(rows):,})", _LONGEST_KIND),
                **look(place),
            )  # fmt: skip
        slow = [row for rows in points.kinds.values() for row in rows if row["is_slow"]]
        if slow:
            names = list(dict.fromkeys(row["link"] for row in slow))
            label = f"slow link: {names[0]}{f' and {len(names) - 1:,} more' if len(names) > 1 else ''}"
            axes.scatter(
                [row["message_bytes"] for row in slow], [row["busbw_gb_s"] for row in slow], s=70, facecolors="none",
                edgecolors=_LATE, linewidths=1.5, label=legend(label, _LONGEST_KIND),
            )  # fmt: skip
        of = "" if points.device is None else f" of {points.device}"
        for peak in points.peaks:
            label = legend(f"links{of}: {peak:,.0f} GB/s")
            axes.plot([least, most], [peak, peak], "--", color="#222222", lw=1.5, label=label)
        axes.set(xscale="log", yscale="log", xlim=(least, most))
        axes.set_xlabel("size of the message", fontsize=9)
        axes.set_ylabel("bus bandwidth, GB/s", fontsize=9)
        powers = 10.0 ** np.arange(np.ceil(np.log10(least)), np.floor(np.log10(most)) + 1)
        axes.xaxis.set_ticks(powers, [shown_bytes(power) for power in powers.tolist()])
        axes.xaxis.set_ticks([], minor=True)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        _titled(axes, title)

    return Drawing(title, _BANDWIDTHS, points.notes, draw if points.kinds else None)


def _pairs(matrix: PairMatrix, job: Job) -> Drawing:
    """Bandwidth from rank to rank as a map of colours; slow pairs have a frame."""
    title = "Bandwidth from rank to rank"

    def draw(canvas: Any, places: Sequence[Any]) -> None:
        axes = canvas.add_subplot(places[0])
        size = len(matrix.ranks)
        rates = np.full((size, size), np.nan)
        for row, column, link in matrix.pairs:
            rates[row, column] = link.bandwidth(link.ns)
        shades = axes.imshow(rates, cmap="viridis", vmin=0, interpolation="nearest")
        slow = [(column, row) for row, column, link in matrix.pairs if link.is_slow]
        if slow:
            label = legend("slower than others of equal kind and size")
            axes.scatter(*zip(*slow, strict=True), marker="s", s=90, facecolors="none", edgecolors=_LATE, label=label)
        names = labels_of([rank_titles(job.matched.ranks)[rank] for rank in matrix.ranks])
        _name_ticks(axes.yaxis, names)
        _name_ticks(axes.xaxis, names)
        axes.tick_params(axis="x", rotation=90)
        axes.set_xlabel("receives", fontsize=9)
        axes.set_ylabel("sends", fontsize=9)
        canvas.colorbar(shades, ax=axes, label="GB/s")
        _titled(axes, title, grid=False)

    height = min(max(_HEAT_ROW * len(matrix.ranks), 2 * _HEAT_LEAST), _HEAT_MOST)
    return Drawing(title, height, matrix.notes, draw if matrix.pairs else None)


def _step(lanes: StepLanes, job: Job) -> Drawing:
    """One lane per rank: above computing, below waiting and communication; lines join the starts of a collective."""
    is_median = lanes.step is not None and {len(rank.steps) for rank in job.matched.ranks} != {1}
    what = "The whole recording" if lanes.step is None else f"Step {lanes.step}"
    title = f"{what}{' (the one of median duration)' if is_median else ''} on all ranks"
    ranks = rank_titles(job.matched.ranks)
    ms = (lanes.end_ns - lanes.begin_ns) / 1e6

    def draw(canvas: Any, places: Sequence[Any]) -> None:
        axes = canvas.add_subplot(places[2])
        for label, color, middle, bars in step_bars(lanes, job):
            names = iter([legend(label)])  # once in the legend
            for lane in range(len(lanes.lanes)):
                own = bars[bars[:, 0] == lane, 1:]
                if len(own):
                    axes.broken_barh(
                        own, (lane + middle - _BAR / 2, _BAR), color=color, linewidth=0, label=next(names, None)
                    )
        x, y = collective_starts(lanes, job)
        if len(x):
            label = "start of one collective on the ranks"
            axes.plot(x, y + _LOWER, color="#8a8a8a", lw=0.75, label=legend(label))
        _draw_moments(axes, lanes, job)
        for lane in range(1, len(lanes.lanes), 2):
            axes.axhspan(lane - 0.5, lane + 0.5, color="#f4f4f4", linewidth=0, zorder=0)
        axes.set(xlim=(-0.005 * ms, 1.005 * ms), ylim=(len(lanes.lanes) - 0.5, -0.5))
        axes.set_xlabel("ms", fontsize=9)
        _name_ticks(axes.yaxis, labels_of([ranks[lane.rank] for lane in lanes.lanes]))
        _titled(axes, title, grid=False)

    return Drawing(title, min(max(_LANE * len(lanes.lanes), _LANES_LEAST), _LANES_MOST), lanes.notes, draw)


def step_bars(lanes: StepLanes, job: Job) -> list[tuple[str, str, float, np.ndarray]]:
    """What takes time: its name, colour, height in the lane, and bars: lane, begin and duration in ms."""
    bar = {name: column.values for name, column in lane_columns(lanes).items()}
    part = {name: column.values for name, column in part_columns(lanes, job).items()}
    own = (part["part.lane"], part["part.start"], part["part.start"] + part["part.wait"])
    moving = (part["part.lane"], own[2], part["part.start"] + part["part.dur"])
    none = np.zeros((3, 0), np.int64)
    found = []
    for what, (label, color, middle, single) in enumerate((
        ("computing", _COMPUTING, _UPPER, none),
        ("waiting for other ranks", _WAITING, _LOWER, np.stack(own)),
        ("communication", _MOVING, _LOWER, np.stack(moving)),
    )):  # fmt: skip
        together = bar["bar.what"] == what
        lane, start, dur = (bar[f"bar.{name}"][together] for name in ("lane", "start", "dur"))
        lane, start, end = np.concatenate((np.stack((lane, start, start + dur)), single), axis=1)
        start, end = (np.clip(edge, 0, lanes.end_ns - lanes.begin_ns) for edge in (start, end))
        bars = np.stack((lane, start / 1e6, (end - start) / 1e6), axis=1)
        found.append((label, color, middle, bars[end > start]))
    return found


def collective_starts(lanes: StepLanes, job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Lines through the starts of collectives, from the first lane to the last: ms and lanes; NaN ends a line."""
    part = {name: column.values for name, column in part_columns(lanes, job).items()}
    number, lane = part["part.collective"] - 1, part["part.lane"]
    order = np.lexsort((lane, number))
    order = order[np.isin(number[order], lanes.joined)]
    ends = np.flatnonzero(np.diff(number[order])) + 1
    start = np.maximum(part["part.start"][order], 0) / 1e6
    return np.insert(start, ends, np.nan), np.insert(lane[order].astype(float), ends, np.nan)


def _draw_moments(axes: Any, lanes: StepLanes, job: Job) -> None:
    """Where steps begin on the ranks, and who comes late to a collective."""
    begins = [(at, place) for place, lane in enumerate(lanes.lanes) for at in lane.begins_ns]
    if begins:
        ns, place = np.array(begins).T
        x = (ns - lanes.begin_ns) / 1e6
        axes.scatter(x, place, marker="|", s=110, c="#222222", linewidths=1.5, label=legend("a step begins"), zorder=3)
    m, lane_of = job.matched, {lane.rank: place for place, lane in enumerate(lanes.lanes)}
    last = [int(m.last_part[collective]) for collective in lanes.late_ns]
    late = [
        ((int(m.start_ns[part]) - lanes.begin_ns) / 1e6, lane_of[int(m.trace[part])] + _LOWER)
        for part in last
        if int(m.trace[part]) in lane_of and lanes.begin_ns <= m.start_ns[part] <= lanes.end_ns
    ]
    if late:
        axes.scatter(*zip(*late, strict=True), label=legend("comes last"), zorder=4, **_DIAMOND)
