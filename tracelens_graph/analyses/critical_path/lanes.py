"""What each thread and stream of a rank did in a step, so that ranks can be compared with one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import step_number


@dataclass(frozen=True, eq=False)
class Lane:
    """What a thread or stream of a rank did in a step.

    Attributes:
        names: what the calls or GPU events are called.
        edge: the edges that bind them; none where these are of no interest.
        takes: how long these take, ns; -1 where that is no work of the rank alone.
        own: whether the edges begin on the same thread: what another thread handed over is other work.
    """

    names: tuple[str, ...]
    edge: np.ndarray
    takes: np.ndarray
    own: np.ndarray


Lanes = Mapping[tuple[int, str, int], Lane]


def lanes(causes: Causes, core: Core) -> Lanes:
    """(step, host or GPU, place among the threads or streams) -> what was done there, in the order of time."""
    c = core.columns
    points = np.flatnonzero((causes.row >= 0) & (causes.role != Role.begin))
    rows = causes.row[points]
    binding = causes.binding[points]
    kind = np.where(binding >= 0, causes.kind[binding], -1)
    takes = np.where(binding >= 0, causes.time[points] - causes.time[causes.before[binding]], -1)
    host = np.isin(causes.role[points], (Role.call, Role.returned))
    runs = causes.role[points] == Role.gpu_end
    takes[host & ~np.isin(kind, (Edge.host, Edge.call))] = -1
    takes[runs & (kind != Edge.run)] = -1
    same_thread = c.thread[causes.row[causes.before[binding]]] == c.thread[rows]
    communicates = np.zeros(len(points), bool)
    communicates[runs] = gpu_classes(core, rows[runs]) == COMMUNICATION
    takes[communicates] = -1
    step = np.where(host, core.step[rows], core.gpu_step[rows])
    has_steps = bool((step >= 0).any())
    found = {}
    for what, chosen, lane in (
        ("host", host, c.thread[rows].astype(np.int64)), ("gpu", runs, c.stream[rows] * 4096 + c.device[rows]),
    ):  # fmt: skip
        of = np.flatnonzero(chosen & (step >= 0) if has_steps else chosen)
        for mark, in_step in positions_by(step[of]):
            # Without steps all of a recording counts as one.
            number = step_number(core.names[c.name[mark]]) if has_steps else 0
            if number is None:
                continue
            in_step = of[in_step]
            for place, (_, at) in enumerate(positions_by(lane[in_step])):
                here = in_step[at][np.argsort(causes.time[points[in_step[at]]], kind="stable")]
                names = tuple(core.names[code] for code in c.name[rows[here]].tolist())
                found[number, what, place] = Lane(names, binding[here], takes[here], same_thread[here])
    return found


Key = tuple[object, ...]
"""What a call or GPU event is compared by."""


def compared_by(lane: Lane, what: str, is_same_program: bool = False) -> list[Key]:
    """What work of lanes with other names is compared by.

    Kernels of one program have the same place among those of their name in the order of time. Programs run them in
    another order: there they have the same place among as many by how long they take.
    """
    if what == "host":
        return list(zip(["", *lane.names], lane.names, lane.own.tolist(), strict=False))
    count = Counter(lane.names)
    seen = Counter[str]()
    keys: list[Key] = [()] * len(lane.names)
    order = range(len(keys)) if is_same_program else np.argsort(lane.takes, kind="stable").tolist()
    for at in order:
        name = lane.names[at]
        keys[at] = (name, seen[name], 0 if is_same_program else count[name])
        seen[name] += 1
    return keys
