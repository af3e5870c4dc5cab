"""The page of a job: who waits for whom, what the network does, and one step over all ranks.

Figures are those of the tables of the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.pictures import WHOLE, BandwidthPoints, PairMatrix, StepLanes, WaitMap, chosen
from tracelens_graph.analyses.stragglers.reasons import LINK, in_words
from tracelens_graph.analyses.stragglers.slowdown import Slowdown
from tracelens_graph.graph.ranks import rank_titles
from tracelens_graph.reports.html.names import LONGEST_LINE, Texts, clean, table_objects
from tracelens_graph.reports.html.shell import Code, Packed, page
from tracelens_graph.reports.ranks_text import all_lines, head, headline, notes
from tracelens_graph.tables.table import Table

CODE = Code("page-ranks.js", ("ranks.css",))

MOST_SPLIT = 200_000
"""Parts of ranks in collectives, those of the collectives with most waiting."""
_LONGEST_LABEL = 60
_REASONS = 3
"""Reasons of a rank that stand beside it; the table has all."""
_OF_RANK = ("wait_ms", "transfer_ms", "end_skew_ms", "held_up_ms", "times_last", "collectives")
_OF_POINT = (
    "collective", "message_bytes", "busbw_gb_s", "latency_us", "ranks", "step", "percent_of_peak", "times_slower",
)  # fmt: skip


_NO_BANDWIDTH = (
    "No collective has a known size and bandwidth. Sizes are arguments of collectives, which PyTorch 2.2 and newer "
    "record with ops: profile with ProfilerActivity.CPU beside CUDA."
)


def ranks_page(job: Job, source: str, commands: Sequence[str] = ()) -> str:
    """A job as a page.

    Args:
        source: what the traces are called together.
        commands: commands that show more, to be copied.
    """
    title, texts = clean(f"Ranks of {source}"), Texts()
    lanes = StepLanes.of(job)
    columns = {**split_columns(job.matched), **lane_columns(lanes), **part_columns(lanes, job)}
    bandwidths = _bandwidths(BandwidthPoints.of(job), texts) | {"pairs": _pairs(PairMatrix.of(job))}
    body = {
        "waits": _waits(WaitMap.of(job)),
        "bandwidths": bandwidths,
        "step": _step(lanes, job, texts),
        "tables": table_objects(job.tables(), texts),
        "texts": texts.listed,
    }
    first = {**_overview(job, commands), "has_bandwidths": bool(bandwidths["kinds"])}
    if not first["has_bandwidths"]:
        first["notes"] += [_NO_BANDWIDTH, *bandwidths["notes"]]
    return page(title, {"title": title, "overview": first}, body, columns, CODE)


def _overview(job: Job, commands: Sequence[str]) -> dict[str, Any]:
    balance, found = job.table("rank_balance").records(), job.slowdown if job.slowdown_line else None
    name = job.lateness.late if job.lateness is not None else None
    names = [one.name for one in job.matched.ranks]
    places = {one: place for place, one in enumerate(names)}
    labels = dict(zip(names, rank_titles(job.matched.ranks), strict=True))
    return {
        "head": clean(head(job), LONGEST_LINE),
        "headline": clean(headline(job), LONGEST_LINE),
        "late": [clean(line, LONGEST_LINE) for line in all_lines(job)],
        "late_rank": -1 if name is None else places[name],
        "has_slow_links": bool(job.slow_links),
        "slowdown": None if found is None else slowdown_map(found, job.table("slowdown"), labels),
        "reasons": _reasons(job, places),
        "commands": [clean(one, LONGEST_LINE) for one in commands],
        "notes": [clean(note, LONGEST_LINE) for note in notes(job)],
        "ranks": [clean(label, _LONGEST_LABEL) for label in rank_titles(job.matched.ranks)],
        "balance": [[_plain(row[key]) for key in _OF_RANK] for row in balance],
        "balance_keys": _OF_RANK,
        "times": [
            {"time": row["time"].replace("_", " "), "meaning": clean(row["meaning"], LONGEST_LINE)}
            | {key: _plain(row[key]) for key in ("mean_ms", "percent", "most_ms", "least_ms")}
            | {key: clean(labels.get(row[key], ""), _LONGEST_LABEL) for key in ("most_trace", "least_trace")}
            for row in job.table("rank_times").records()
        ],
    }  # fmt: skip


MOST_WORKERS, _ACROSS = 1024, 16
"""Workers of a map, and of those without stages how many stand side by side."""


def slowdown_map(found: Slowdown, table: Table, labels: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """The slowdown of each worker: a row per stage, a column per data-parallel rank; without stages rank by rank.

    Workers that account for most of the excess stand out, but for those that only take part in slow transfers.

    Args:
        labels: what people call workers, where that is another name.
    """
    work, by_link = found.work, {row["name"] for row in table.records() if row["reason"] == LINK}
    culprits = {at for at in found.culprits if work.workers[at] not in by_link}
    shown = chosen(found.workers - 1, MOST_WORKERS).tolist()
    names = [clean(labels.get(name, name), _LONGEST_LABEL) for name in work.workers]
    cells: dict[int, list[Any]] = {at: [names[at], float(found.workers[at]), at in culprits] for at in shown}
    if len(found.stages) > 1:
        where = "by pipeline stage and data-parallel rank"
        place = {(int(work.stage[at]), int(work.dp_rank[at])): cell for at, cell in cells.items()}
        columns = {rank: f"dp {rank}" for rank in sorted({rank for _, rank in place})}
        rows = [
            {"name": f"stage {stage}", "cells": [place.get((stage, rank)) for rank in columns]}
            for stage in sorted({stage for stage, _ in place})
        ]
    else:
        where, columns = "rank by rank", {at: f"+{at}" for at in range(_ACROSS)}
        if len(shown) <= _ACROSS:
            columns = {at: cells[at][0] for at in shown}
        rows = [
            {"name": cells[some[0]][0] if len(shown) > _ACROSS else "", "cells": [cells[at] for at in some]}
            for low in range(0, len(shown), _ACROSS)
            for some in [shown[low : low + _ACROSS]]
        ]
    of_links = [cell[0] for at, cell in cells.items() if work.workers[at] in by_link]
    notes = [f"slow transfers, no work of their own: {', '.join(of_links[:8])}"] if of_links else []
    if len(shown) < len(found.workers):
        which = "the slowest, and others at equal distances"
        notes.append(f"{len(shown):,} of {len(found.workers):,} workers are drawn: {which}")
    return {
        "caption": f"Slowdown of each worker, {where}: the job with its times alone, over the ideal job",
        "columns": list(columns.values()),
        "rows": rows,
        "notes": [clean(note) for note in (*found.measures(), *notes)],
    }


def slowdown_page(found: Slowdown, source: str) -> str:
    """The slowdown of a job whose operations are known without traces, as a page.

    Args:
        source: what the operations are called together.
    """
    title, texts, tables = clean(f"Slowdown of {source}"), Texts(), {one.name: one for one in found.tables()}
    first = {
        "head": f"{found.sizes()}; {found.times()}",
        "headline": clean(found.line().removeprefix("slowdown: "), LONGEST_LINE),
        "slowdown": slowdown_map(found, tables["slowdown"]),
        "late": [], "late_rank": -1, "has_slow_links": False, "has_bandwidths": False, "reasons": [], "commands": [],
        "notes": [*map(clean, found.work.notes)], "ranks": [], "balance": [], "balance_keys": [], "times": [],
    }  # fmt: skip
    body = {"tables": table_objects(tables, texts), "texts": texts.listed}
    return page(title, {"title": title, "overview": first}, body, {}, Code("page-slowdown.js", CODE.styles))


def _reasons(job: Job, places: Mapping[str, int]) -> list[list[str]]:
    """For each rank why it comes late, the reasons with most lateness first; none where no traces were read whole."""
    found: list[list[str]] = [[] for _ in job.matched.ranks]
    if "late_ranks" not in job.names:
        return found
    for row in job.table("late_ranks").records():
        reasons = found[places[row["trace"]]]
        if len(reasons) < _REASONS:
            late = f"late in {row['times_late']:,} of {row['collectives']:,} {row['kind']}"
            reasons.append(clean(f"{late}: {in_words(row['reason'], row['what'])}", LONGEST_LINE))
    return found


def _waits(waits: WaitMap) -> dict[str, Any]:
    """Matrices by rank and step; null where a rank has no such step."""
    return {
        "rows": waits.ranks,
        "steps": [clean(step, _LONGEST_LABEL) for step in waits.steps],
        "is_whole": waits.steps == [WHOLE],
        "wait_ms": _matrix(waits.wait_ms),
        "step_ms": _matrix(waits.step_ms),
        "held_up_ms": _matrix(waits.held_up_ms),
        "all_held_up_ms": _matrix(waits.all_held_up_ms),
        "late": waits.late.tolist(),
        "notes": [clean(note) for note in waits.notes],
    }


def _pairs(matrix: PairMatrix) -> dict[str, Any]:
    """Bandwidth from rank to rank: row, column, size and number of messages, GB/s, times slower than others, slow."""
    return {
        "ranks": matrix.ranks,
        "cells": [
            [
                row, column, int(one.size), len(one.collectives), _plain(one.bandwidth(one.ns)),
                _plain(one.factor), int(one.is_slow),
            ]
            for row, column, one in matrix.pairs
        ],
        "notes": [clean(note) for note in matrix.notes],
    }  # fmt: skip


def _bandwidths(points: BandwidthPoints, texts: Texts) -> dict[str, Any]:
    return {
        "keys": _OF_POINT,
        "kinds": [
            {
                "kind": clean(kind),
                "points": [[_plain(row[key]) for key in _OF_POINT] for row in rows],
                "links": [texts.number(row["link"] or "") for row in rows],
                "slow": [int(row["is_slow"]) for row in rows],
            }
            for kind, rows in points.kinds.items()
        ],
        "peaks": points.peaks,
        "device": None if points.device is None else clean(points.device),
        "notes": [clean(note) for note in points.notes],
    }


def _step(lanes: StepLanes, job: Job, texts: Texts) -> dict[str, Any]:
    """What a stretch of time is, and names of the collectives in it."""
    steps = {len(rank.steps) for rank in job.matched.ranks}
    kinds = [job.matched.parts.collective(part) for part in lanes.parts.tolist()]
    return {
        "step": lanes.step,
        "is_median": lanes.step is not None and steps != {1},
        "ns": lanes.end_ns - lanes.begin_ns,
        "lanes": [lane.rank for lane in lanes.lanes],
        "begins": [[at - lanes.begin_ns for at in lane.begins_ns] for lane in lanes.lanes],
        "kinds": [texts.number(str(one.kind)) for one in kinds],
        "groups": [texts.number(one.group_description or one.group or "") for one in kinds],
        "sequences": [one.sequence for one in kinds],
        "late": [[collective, by] for collective, by in lanes.late_ns.items()],
        "notes": [clean(note) for note in lanes.notes],
    }


def _matrix(values: np.ndarray) -> list[Any]:
    """Numbers in ms, to the nanosecond; NaN is null."""
    rounded = np.round(values, 6).astype(object)
    rounded[np.isnan(values)] = None
    return list(rounded.tolist())


def _plain(value: Any) -> Any:
    """A number as JSON has it; null for none, NaN and infinity."""
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if plain is None or not isinstance(plain, float) or np.isfinite(plain) else None


def lane_columns(lanes: StepLanes) -> dict[str, Packed]:
    """Bars of the lanes that are of no single collective: lane, what (computing, waiting, communicating), start from
    the begin of the stretch, and duration, ns."""
    rows = [(np.zeros(0, np.int64),) * 4]
    rows += [
        (np.full(len(starts), place), np.full(len(starts), what), starts - lanes.begin_ns, ends - starts)
        for place, lane in enumerate(lanes.lanes)
        for what, field in enumerate(("computing", "waiting", "moving"))
        for starts, ends in [getattr(lane, field)]
    ]
    lane, what, start, dur = (np.concatenate(one) for one in zip(*rows, strict=True))
    return {
        "bar.lane": Packed(lane, True), "bar.what": Packed(what), "bar.start": Packed(start, True),
        "bar.dur": Packed(dur),
    }  # fmt: skip


def part_columns(lanes: StepLanes, job: Job) -> dict[str, Packed]:
    """Parts of collectives that are drawn one by one: lane, start from the begin of the stretch, time that it waits,
    duration, one more than the number of the collective (0 for none), and one more than its size in bytes."""
    m, parts = job.matched, lanes.parts
    place = {lane.rank: at for at, lane in enumerate(lanes.lanes)}
    # The last one stands for what is not matched, whose number is -1.
    size = np.append(job.figures.size, np.nan)[m.number[parts]]
    return {
        "part.lane": Packed(np.array([place[rank] for rank in m.trace[parts].tolist()], np.int64)),
        "part.start": Packed(m.start_ns[parts] - lanes.begin_ns, True),
        "part.wait": Packed(m.wait_ns[parts]),
        "part.dur": Packed(m.end_ns[parts] - m.start_ns[parts]),
        "part.collective": Packed(m.number[parts] + 1, True),
        "part.size": Packed(np.where(np.isnan(size), 0, np.nan_to_num(size) + 1).astype(np.int64)),
    }


def split_columns(m: MatchedCollectives) -> dict[str, Packed]:
    """How each rank's part of a collective is made up: number of the collective, rank, start from the first start, time
    that it waits, communicates, and stays longer than the first that ends, ns; of the collectives with most waiting."""
    wait = np.bincount(m.number[m.number >= 0], m.wait_ns[m.number >= 0], minlength=len(m))
    by_wait = np.lexsort((np.arange(len(m)), -wait))
    taken = np.zeros(len(m) + 1, bool)
    taken[by_wait[np.cumsum(m.count[by_wait]) <= MOST_SPLIT]] = True
    parts = np.flatnonzero(taken[m.number])
    parts = parts[np.lexsort((m.trace[parts], m.number[parts]))]
    of = m.number[parts]
    return {
        "split.collective": Packed(of, True),
        "split.rank": Packed(m.trace[parts]),
        "split.start": Packed(m.start_ns[parts] - (m.first_start_ns[of] if len(of) else 0)),
        "split.wait": Packed(m.wait_ns[parts]),
        "split.transfer": Packed(m.transfer_ns[parts]),
        "split.skew": Packed(m.end_skew_ns[parts]),
    }
