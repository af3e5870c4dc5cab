"""Few of many events, and only the names that are used: for a view that is kept with other things.

The longest events are what a picture shows anyway: of those that are left out, it is told how many they are, and that
none of them is longer than so much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

import numpy as np

from tracelens_graph.analyses.idle.idle import Idle
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.html.drawn import Drawn, laid_out
from tracelens_graph.reports.html.names import Names, clean
from tracelens_graph.reports.html.shell import Packed

_HOST, _LONG, _BESIDE = 5 / 8, 1 / 8, 1 / 16
"""Shares of calls of the host, the longest ones among them; and of annotations, and of idle gaps."""


@dataclass(frozen=True)
class LeftOut:
    """Events that are not drawn although a page would draw them.

    Attributes:
        what: what they are, in the plural.
        count: how many.
        of: of how many.
        longest_ns: duration of the longest one.
    """

    what: str
    count: int
    of: int
    longest_ns: int

    def __str__(self) -> str:
        return f"{self.count:,} of {self.of:,} {self.what}, none longer than {self.longest_ns / 1e3:,.3f} µs"


def longest_events(w: Window, d: Drawn, most: int) -> tuple[Drawn, list[LeftOut]]:
    """The longest events of the GPU and of the host, annotations and idle gaps; with the calls that launched the first.

    Args:
        w: the window that is drawn.
        d: all that can be drawn of it.
        most: events, idle gaps among them; if there are not more, all of them stay.

    Returns:
        What is drawn, and what is not.
    """
    c = w.core.columns
    gaps = len(d.idle.row)
    if d.events + gaps <= most:
        return d, []
    notes = _longest(c.dur_ns[d.notes], int(most * _BESIDE))
    idle = _longest(d.idle.end - d.idle.start, int(most * _BESIDE))
    host_room, long_room = min(int(most * _HOST), len(d.host)), int(most * _LONG)
    gpu_room = most - host_room - int(notes.sum()) - int(idle.sum())
    if host_room < len(d.host):  # there is room for the launch of each, and the op that it is charged to
        gpu_room = min(gpu_room, (host_room - long_room) // 2)
    gpu = _longest(c.dur_ns[d.gpu], gpu_room)
    first = np.zeros(len(c) + 1, np.int64)  # the last entry takes what there is none of
    first[c.parent[d.gpu[gpu]]] = first[c.owner[d.gpu[gpu]]] = 1
    first[d.host[_longest(c.dur_ns[d.host], long_room)]] = 2
    host = _longest(c.dur_ns[d.host], host_room, first[d.host])
    kept = laid_out(w, d.host[host], d.notes[notes], d.gpu[gpu], _of_gaps(d.idle, idle), d.left_out)
    missing = [
        LeftOut(what, int((~keep).sum()), len(keep), int(dur[~keep].max()))
        for what, keep, dur in (
            ("GPU events", gpu, c.dur_ns[d.gpu]),
            ("calls of the host", host, c.dur_ns[d.host]),
            ("annotations", notes, c.dur_ns[d.notes]),
            ("idle gaps", idle, d.idle.end - d.idle.start),
        )
        if not keep.all()
    ]
    return kept, missing


def _longest(dur: np.ndarray, most: int, first: np.ndarray | None = None) -> np.ndarray:
    """Whether each is one of the longest, after those with a greater `first`; of equals the earlier ones are."""
    order = np.argsort(-dur, kind="stable") if first is None else np.lexsort((-dur, -first))
    keep = np.zeros(len(dur), bool)
    keep[order[: max(most, 0)]] = True
    return keep


def _of_gaps(idle: Idle, keep: np.ndarray) -> Idle:
    """Some of the gaps; the time of all of them stays what it is."""
    found = {field.name: getattr(idle, field.name) for field in fields(idle)}
    return Idle(**{
        name: value if name == "total_ns" else value[:, keep] if name == "parts" else value[keep]
        for name, value in found.items()
    })  # fmt: skip


def used_names(
    columns: Mapping[str, Packed], names: Names, longest: int
) -> tuple[dict[str, Packed], dict[str, list[str | None]]]:
    """Columns whose names are numbered anew, because most of all names are not in them.

    Args:
        columns: columns; those of names end with `.name`.
        names: what they number.
        longest: characters of a name.

    Returns:
        The columns, with the classes of the names; and `names` and `shorts`, None where a name is short.
    """
    of_names = [name for name in columns if name.endswith(".name")]
    used = np.unique(np.concatenate([columns[name].values for name in of_names]))
    again = {name: Packed(np.searchsorted(used, columns[name].values), columns[name].is_delta) for name in of_names}
    classes = Packed(np.array(names.classes, np.int64)[used])
    texts = _texts((names.texts[one] for one in used.tolist()), longest)
    shorts = _texts((names.shorts[one] for one in used.tolist()), longest)
    return {**columns, **again, "name.class": classes}, {
        "names": list(texts),
        "shorts": [None if short == text else short for text, short in zip(texts, shorts, strict=True)],
    }


def _texts(texts: Iterable[str], longest: int) -> list[str]:
    return [clean(text, longest) for text in texts]
