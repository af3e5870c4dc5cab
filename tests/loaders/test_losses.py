"""Bytes destroyed anywhere: kept and lost entries add up to those of the file before, or "at least" is said."""

from __future__ import annotations

import gzip
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from faults import Edit, Trace, apply
from profiles import rounds

from corpus import CHECKOUT, traces_named
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.kineto import chunks
from tracelens_graph.loading import load_core

EVENTS = 400
"""Events of a real trace that are taken: a stretch of its text as it stands."""

LENGTHS = (1, 2, 5, 12, 40, 100, 300, 1000, 5000)
JUNK = {
    "zeros": lambda rng, size: b"\0" * size,
    "ones": lambda rng, size: b"\xff" * size,
    "bytes": lambda rng, size: rng.randbytes(size),
    "letters": lambda rng, size: bytes(rng.choices(b"abcdefghij ,.0123456789", k=size)),
    "punctuation": lambda rng, size: bytes(rng.choices(b'{}[]":,\\ \n0aph', k=size)),
}


def made(rng: random.Random, style: dict[str, Any], order: tuple[str, ...]) -> bytes:
    """A made-up trace of short events, as other writers than Kineto lay them out."""
    events = []
    for number in range(200):
        event = {
            "ph": "X", "cat": rng.choice(("cpu_op", "cuda_runtime", "user_annotation")), "name": f"op {number % 7}",
            "pid": 1, "tid": 2 + number % 2, "ts": 1000 + 5 * number, "dur": 3, "args": {"External id": number},
        }  # fmt: skip
        events.append({key: event[key] for key in order})
    return json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x"}, **style).encode()


MADE = {
    "compact": ({"separators": (",", ":")}, ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")),
    "indented": ({"indent": 1}, ("name", "ph", "cat", "ts", "dur", "tid", "pid", "args")),
}
REAL = [
    CHECKOUT / "examples/traces/tiny-transformer-cpu.json.gz",
    *traces_named(
        "tracelens/h100/bert-small", "tracelens/mi300/torch-compile-triton", "hta/amd/mi250-minitoy",
        "hta/critical-path/simple-add", "dlrm-8-ranks/kineto/rank3",
    ),
]  # fmt: skip


@cache
def sound(source: Path | str, at: int) -> tuple[Trace, dict[int, dict[str, Any]]]:
    """A trace, and its nodes by position."""
    if isinstance(source, str):
        data = made(random.Random(at), *MADE[source])
    else:
        whole = full(source)
        first = at * (len(whole.spans) - EVENTS) // 8 if len(whole.spans) > EVENTS else 0
        spans = whole.spans[first : first + EVENTS]
        data = whole.data[: whole.spans[0][0]] + whole.data[spans[0][0] : spans[-1][1]] + whole.data[whole.spans[-1][1] :]
    return Trace(data), nodes(load_core(data))


@cache
def full(path: Path) -> Trace:
    return Trace(gzip.decompress(path.read_bytes()))


def nodes(core: Core) -> dict[int, dict[str, Any]]:
    return core.details.events(core.columns.uid.tolist())


def damage(trace: Trace, rng: random.Random) -> Edit:
    """A stretch of bytes overwritten, taken out or pushed in, at the border of an event or anywhere."""
    first, last = trace.spans[0][0], trace.spans[-1][1]
    begin = rng.randint(first, last)
    if rng.random() < 0.5:
        begin = min(max(first, rng.choice(trace.spans)[rng.randrange(2)] + rng.randint(-8, 8)), last)
    size = rng.choice(LENGTHS)
    how = rng.choice(("overwritten", "deleted", "inserted"))
    end = begin if how == "inserted" else min(begin + size, last)
    junk = b"" if how == "deleted" else rng.choice(list(JUNK.values()))(rng, size if how == "inserted" else end - begin)
    return Edit(begin, end, junk)


def leaves_no_mark(trace: Trace, edit: Edit) -> bool:
    """Whether what is left is a sound file, in which no event has its phase or time twice: then nobody can tell."""

    def member(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if keys.count("ph") > 1 or keys.count("ts") > 1:
            raise ValueError("two events in one")
        return dict(pairs)

    try:
        json.loads(apply(trace.data, [edit]), object_pairs_hook=member)
    except ValueError:
        return False
    return True


def case(number: int) -> tuple[Trace, dict[int, dict[str, Any]], list[Edit]]:
    rng = random.Random(f"losses {number}")
    trace, whole = sound(rng.choice([*REAL, *MADE]), rng.randrange(8))
    edits: list[Edit] = []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        edit = damage(trace, rng)
        apart = all(edit.end + 2000 < other.begin or other.end + 2000 < edit.begin for other in edits)
        if apart and edit.broken != trace.data[edit.begin : edit.end] and not leaves_no_mark(trace, edit):
            edits.append(edit)
    return trace, whole, edits


def verdict(trace: Trace, whole: dict[int, dict[str, Any]], edits: list[Edit]) -> str:
    """What is wrong with the count of a damaged trace; empty if nothing is."""
    try:
        core = load_core(apply(trace.data, edits))
    except TraceError:
        return "" if len(trace.touched(edits)) == len(trace.spans) else "refused"
    info, touched = core.info, trace.touched(edits)
    sure_below = getattr(info, "doubtful_from", None)
    if info.events > len(trace.spans):
        return f"{info.events} of {len(trace.spans)}"
    if info.events < len(trace.spans) and sure_below is None and not info.ends_early:
        return f"only {info.events} of {len(trace.spans)}"
    for uid, event in nodes(core).items():
        if (sure_below is None or uid < sure_below) and uid not in touched and event != whole.get(uid):
            return f"another event at {uid}"
    return ""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many borders between chunks also in small traces."""
    monkeypatch.setattr(chunks, "BLOCK", 24 * 1024)


@pytest.mark.parametrize("number", range(max(60, rounds(240))))
def test_kept_and_lost_add_up(number: int) -> None:
    trace, whole, edits = case(number)
    assert not verdict(trace, whole, edits)
