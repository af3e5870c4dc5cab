"""The events of a report of Nsight Systems as columns, without the text that says the same: twice as fast.

What is read are rows of kernels and of calls, most of what a report holds. All else is collected from its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from tracelens_graph.graph.arrays import distinct
from tracelens_graph.loaders.databases import Database
from tracelens_graph.loaders.kineto.collect import Chunk, Collected, Collector, dtype_of
from tracelens_graph.loaders.kineto.records import NO_BYTES, Family
from tracelens_graph.loaders.kineto.times import LATEST_NS, LONGEST_NS
from tracelens_graph.loaders.nsys.report import Rows, contents
from tracelens_graph.loaders.translated import EVENTS_AT_ONCE, joined
from tracelens_graph.schema import Kind

_ROWS_AT_ONCE = 1 << 16


def collected(database: Database, collector: Collector) -> dict[str, Any]:
    """Collect the events; what stands beside them. A chunk is as many events as a block of `blocks`.

    Raises:
        NotATraceError: the report holds nothing with a begin and an end.
        TypeError, ValueError, OverflowError, LookupError: a row holds what columns do not; its text may say more.
    """
    beside, parts = contents(database)
    out = collector.out
    texts = dict(database.rows("SELECT id, value FROM temp.texts"))
    for rows, events in parts:
        if rows is not None and rows.name.isidentifier():
            _take(database, rows, texts, out)
        else:
            for text in joined(events):
                collector.chunk(memoryview(b"[" + text + b"]"), 0)
    out.chunks = [
        Chunk(at, 0, first, min(EVENTS_AT_ONCE, out.events - first))
        for at, first in enumerate(range(0, out.events, EVENTS_AT_ONCE))
    ]
    return beside


def blocks(database: Database) -> Iterator[bytes]:
    """The same events as lists in JSON."""
    return (b"[" + text + b"]" for text in joined(chain.from_iterable(texts for _, texts in contents(database)[1])))


def _take(database: Database, rows: Rows, texts: dict[int, str], out: Collected) -> None:
    """The rows of a table whose names are ids of texts."""
    on_gpu = "device" in rows.arguments
    family, kind = (Family.gpu, Kind.Kernel) if on_gpu else (Family.runtime, Kind.RuntimeCall)
    ids = ["correlation", *(["device", "stream"] if on_gpu else [])]
    read = [f"COALESCE({rows.arguments.get(one, -1)}, -1)" for one in ids]
    cursor = database.connection.execute(
        f'SELECT start, "end", {rows.name}, {rows.pid}, {rows.tid}, {", ".join(read)} FROM {rows.source}'
    )
    target = out.columns.setdefault(family.value, {})
    while len(found := np.fromiter(islice(cursor, _ROWS_AT_ONCE), np.dtype((np.int64, 5 + len(ids))))):
        start, end, name, pid, tid, *numbers = found.T
        dur = end - start
        if start.min() < 0 or end.max() >= LATEST_NS or dur.min() < 0 or dur.max() > LONGEST_NS:
            raise ValueError("a time is out of range")
        columns = {
            "uid": out.events + np.arange(len(found)), "kind": np.full(len(found), kind),
            "name": _codes(name, texts, out), "thread": _threads(pid, tid, out), "start_ns": start, "dur_ns": dur,
            "flags": np.zeros(len(found)), "external_id": np.full(len(found), -1),
            **dict(zip(ids, numbers, strict=True)),
        }  # fmt: skip
        if on_gpu:
            columns["bytes"] = np.full(len(found), NO_BYTES)
        for column, values in columns.items():
            kept = values.astype(dtype_of(column), copy=False).tobytes()
            target.setdefault(column, bytearray()).extend(kept)
        out.events += len(found)


def _codes(name: np.ndarray, texts: dict[int, str], out: Collected) -> np.ndarray:
    ids, at = distinct(name)
    return np.array([out.names[texts[one]] for one in ids.tolist()], np.int32)[at]


def _threads(pid: np.ndarray, tid: np.ndarray, out: Collected) -> np.ndarray:
    process, of = distinct(pid)
    thread, number = distinct(tid)
    both, at = distinct(of * len(thread) + number)
    pairs = ((int(process[one // len(thread)]), int(thread[one % len(thread)])) for one in both.tolist())
    return np.array([out.threads[pair] for pair in pairs], np.int32)[at]
