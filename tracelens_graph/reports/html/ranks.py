"""The page of a job: who waits for whom, what the network does, and one step over all ranks.

Figures are those of the tables of the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.pictures import WHOLE, BandwidthPoints, StepLanes, WaitMap, rank_labels
from tracelens_graph.analyses.stragglers.lateness import in_words
from tracelens_graph.reports.html.names import clean
from tracelens_graph.reports.html.ranks_columns import lane_columns, part_columns, split_columns
from tracelens_graph.reports.html.shell import Code, page
from tracelens_graph.reports.html.tables import Texts, table_objects
from tracelens_graph.reports.ranks_text import head, headline, late_lines, notes

CODE = Code("page-ranks.js", ("ranks.css",))

_LONGEST = 2000
_LONGEST_LABEL = 60
_REASONS = 3
"""Reasons of a rank that stand beside it; the table has all."""
_OF_RANK = ("computing_ms", "wait_ms", "transfer_ms", "end_skew_ms", "exposed_wait_ms", "held_up_ms", "times_last",
            "collectives")  # fmt: skip
_OF_POINT = ("collective", "message_bytes", "busbw_gb_s", "latency_us", "ranks", "step", "percent_of_peak")


def ranks_page(job: Job, source: str, commands: Sequence[str] = ()) -> str:
    """A job as a page.

    Args:
        job: the ranks.
        source: what the traces are called together.
        commands: what tells more, to be copied.
    """
    title, texts = clean(f"Ranks of {source}"), Texts()
    lanes = StepLanes.of(job)
    split, left = split_columns(job.meetings)
    columns = {**split, **lane_columns(lanes), **part_columns(lanes, job)}
    body: dict[str, Any] = {
        "waits": _waits(WaitMap.of(job)),
        "bandwidths": _bandwidths(BandwidthPoints.of(job)),
        "step": _step(lanes, job, texts),
        "split_left": left,
        "tables": table_objects(job.tables(), texts),
    }
    body["texts"] = texts.listed
    return page(title, {"title": title, "overview": _overview(job, commands)}, body, columns, CODE)


def _overview(job: Job, commands: Sequence[str]) -> dict[str, Any]:
    late, balance = late_lines(job), job.table("rank_balance").records()
    name = job.lateness.late if job.lateness is not None else None
    names = [one.name for one in job.meetings.attendances]
    places = {one: place for place, one in enumerate(names)}
    labels = dict(zip(names, rank_labels(job.meetings.attendances), strict=True))
    return {
        "head": clean(head(job), _LONGEST),
        "headline": clean(headline(job), _LONGEST),
        "late": [clean(line, _LONGEST) for line in late],
        "late_rank": -1 if name is None else places[name],
        "reasons": _reasons(job, places),
        "commands": [clean(one, _LONGEST) for one in commands],
        "notes": [clean(note, _LONGEST) for note in notes(job)],
        "ranks": [clean(label, _LONGEST_LABEL) for label in rank_labels(job.meetings.attendances)],
        "balance": [[_plain(row[key]) for key in _OF_RANK] for row in balance],
        "balance_keys": _OF_RANK,
        "times": [
            {"time": row["time"].replace("_", " "), "meaning": clean(row["meaning"], _LONGEST)}
            | {key: _plain(row[key]) for key in ("mean_ms", "percent", "most_ms", "least_ms")}
            | {key: clean(labels.get(row[key], ""), _LONGEST_LABEL) for key in ("most_trace", "least_trace")}
            for row in job.table("rank_times").records()
        ],
    }  # fmt: skip


def _reasons(job: Job, places: Mapping[str, int]) -> list[list[str]]:
    """For each rank why it comes late, the reasons with most lateness first; none where no traces were read whole."""
    found: list[list[str]] = [[] for _ in places]
    if "late_ranks" not in job.names:
        return found
    for row in job.table("late_ranks").records():
        told = found[places[row["trace"]]]
        if len(told) < _REASONS:
            late = f"late in {row['times_late']:,} of {row['collectives']:,} {row['kind']}"
            told.append(clean(f"{late}: {in_words(row)}", _LONGEST))
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


def _bandwidths(points: BandwidthPoints) -> dict[str, Any]:
    return {
        "keys": _OF_POINT,
        "kinds": [
            {"kind": clean(kind), "points": [[_plain(row[key]) for key in _OF_POINT] for row in rows]}
            for kind, rows in points.kinds.items()
        ],
        "peaks": points.peaks,
        "device": None if points.device is None else clean(points.device),
        "notes": [clean(note) for note in points.notes],
    }


def _step(lanes: StepLanes, job: Job, texts: Texts) -> dict[str, Any]:
    """What a stretch of time is, and names of the collectives in it."""
    steps = {len(rank.steps) for rank in job.meetings.attendances}
    kinds = [job.meetings.parts.collective(part) for part in lanes.parts.tolist()]
    return {
        "step": lanes.step,
        "is_median": lanes.step is not None and steps != {1},
        "ns": lanes.end_ns - lanes.begin_ns,
        "lanes": [lane.rank for lane in lanes.lanes],
        "begins": [[at - lanes.begin_ns for at in lane.begins_ns] for lane in lanes.lanes],
        "kinds": [texts.number(str(one.kind)) for one in kinds],
        "groups": [texts.number(one.group_description or one.group or "") for one in kinds],
        "sequences": [one.sequence for one in kinds],
        "late": [[meeting, by] for meeting, by in lanes.late_ns.items()],
        "joined": lanes.joined,
        "notes": [clean(note) for note in lanes.notes],
    }


def _matrix(values: np.ndarray) -> list[Any]:
    """Numbers in ms, to the nanosecond; NaN is null."""
    told = np.round(values, 6).astype(object)
    told[np.isnan(values)] = None
    return list(told.tolist())


def _plain(value: Any) -> Any:
    """A number as JSON has it; null for none, NaN and infinity."""
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if plain is None or not isinstance(plain, float) or np.isfinite(plain) else None
