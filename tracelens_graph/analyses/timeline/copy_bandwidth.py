"""Memory bandwidth over time: how fast copies and fills move bytes, by direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import copies_of
from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.analyses.shared.levels import END_US, POINTS, START_US, Levels, edges_of, stretches
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.schema.categories import copy_direction
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Rows

COPY_BANDWIDTH = TableSchema(
    "copy_bandwidth",
    "How fast copies and fills move bytes over time, by direction.",
    {
        "device": Column.key("index of the device", cells="number"),
        "direction": Column.key(
            "H is the host, D a device, P another device; fill for fills, else unknown", drop_priority=-1
        ),
        "start_us": START_US,
        "end_us": END_US,
        "bytes": Column.total(
            "bytes moved in the stretch; those of a copy are spread evenly over its duration, to whole ones", "B"
        ),
        "busy_us": Column.total("time of it in which a copy of the direction runs", "us"),
        "gb_per_s": Column("bytes per time of the stretch", "GB/s"),
        "max_gb_per_s": Column("greatest rate of all copies that run at once", "GB/s", Role.max, drop_priority=0),
    },
)

_FILL = "fill"


@dataclass(frozen=True, eq=False)
class Bandwidth:
    """What copies of a direction move.

    Attributes:
        device: whose copies.
        direction: HtoD, DtoH, DtoD, HtoH, PtoP, fill or unknown.
        rate: bytes per ns, which is GB/s, of all copies that run at once.
        running: how many these are.
    """

    device: int
    direction: str
    rate: Levels
    running: Levels


def directed_copies(w: Window) -> tuple[Rows, list[tuple[int, str]], Codes]:
    """Copies and fills of a window that have a rate, and of each the device and direction.

    The rate of a copy is its bytes per duration. Copies without recorded bytes, and those that last 0 ns, have none.

    Returns:
        The rows; devices with directions, ascending; and for each row which of these it has.
    """
    core, c = w.core, w.core.columns
    rows = copies_of(w)
    rows = rows[_has_rate(core, rows)]
    group, first = group_by(c.device[rows], c.name[rows], c.kind[rows])
    ways = [
        (int(c.device[row]), _FILL if c.kind[row] == Kind.Memset else copy_direction(core.names[c.name[row]]))
        for row in rows[first].tolist()
    ]
    known = sorted(set(ways))
    return rows, known, np.array([known.index(way) for way in ways], np.int64)[group]


def bandwidths_of(w: Window) -> list[Bandwidth]:
    """What copies and fills of a window move over time, by device and direction; see `directed_copies`."""
    c = w.core.columns
    rows, ways, way_of = directed_copies(w)
    found = []
    for code, places in positions_by(way_of):
        (device, way), here = ways[code], rows[places]
        at, ones = np.concatenate((c.start_ns[here], c.end_ns[here])), np.repeat((1, -1), len(here))
        running = Levels.of(at, ones)
        rate = Levels.of(at, ones * np.tile(c.bytes[here] / c.dur_ns[here], 2))
        # Sums of fractions leave a rest where nothing runs any more.
        found.append(Bandwidth(device, way, rate._replace(level=np.where(running.level > 0, rate.level, 0)), running))
    return found


def _has_rate(core: Core, rows: Rows) -> Mask:
    c = core.columns
    return np.asarray((c.bytes[rows] >= 0) & (c.dur_ns[rows] > 0))


def copy_bandwidth(g: Core | Window, points: int = POINTS) -> Table:
    """The bandwidth of copies and fills over time, by device and direction.

    Args:
        points: number of equal stretches of time, from the start of the first copy to the end of the last; 0 for one
            row from each start or end of a copy of the direction to the next.

    Raises:
        AnalysisError: `points` is less than 0, or more than a million.
    """
    w = window_of(g)
    found, parts = sorted(bandwidths_of(w), key=lambda one: -one.rate.total), []
    for one, edges in zip(found, edges_of([one.rate for one in found], points), strict=True):
        moved = np.floor(np.diff(one.rate.total_before(edges)) + 0.5).astype(np.int64)
        count = len(edges) - 1
        parts.append({
            "device": np.full(count, one.device), "direction": np.full(count, one.direction, object),
            **stretches(w.core, edges),
            "bytes": moved, "busy_us": np.diff(one.running.times_of(one.running.level > 0).total_before(edges)) / 1e3,
            "gb_per_s": moved / np.diff(edges), "max_gb_per_s": one.rate.greatest(edges),
        })  # fmt: skip
    columns: dict[str, Cells] = {
        name: np.concatenate([part[name] for part in parts]) if parts else [] for name in COPY_BANDWIDTH
    }
    rows = copies_of(w)
    without = int(np.count_nonzero(~_has_rate(w.core, rows)))
    notes = (
        [f"{without:,} of {len(rows):,} copies and fills have no rate: no bytes recorded, or 0 ns"] if without else []
    )
    return COPY_BANDWIDTH.table(columns, w.titled("Bandwidth of copies and fills over time"), notes)
