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
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.kineto import chunks, loader
from tracelens_graph.loading.one import load_core

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
        data = (
            whole.data[: whole.spans[0][0]] + whole.data[spans[0][0] : spans[-1][1]] + whole.data[whole.spans[-1][1] :]
        )
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
    """Whether what is left is a sound file: then nobody can tell."""
    try:
        json.loads(apply(trace.data, [edit]))
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


def fault_of(trace: Trace, whole: dict[int, dict[str, Any]], edits: list[Edit]) -> str:
    """What is wrong with the count of a damaged trace; empty if nothing is."""
    touched = trace.touched(edits)
    try:
        core = load_core(apply(trace.data, edits))
    except TraceError as error:
        return "" if len(touched) == len(trace.spans) else str(error)
    info = core.info
    if info.events > len(trace.spans):
        return f"{info.events} of {len(trace.spans)}"
    if info.events < len(trace.spans) and not info.lost_at_least:
        return f"only {info.events} of {len(trace.spans)}"
    assert "at least" in info.damage or "may be lost" in info.damage or not info.lost_at_least
    for uid, event in nodes(core).items():
        surely = info.doubtful_from is None or uid < info.doubtful_from
        if surely and uid not in touched and event != whole.get(uid):
            return f"another event at {uid}"
    return ""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many borders between chunks also in small traces."""
    monkeypatch.setattr(chunks, "BLOCK", 24 * 1024)


@pytest.mark.parametrize("number", range(60))
def test_kept_and_lost_add_up(number: int) -> None:
    assert not fault_of(*case(number))


def test_noise_alone_is_taken_for_an_event() -> None:
    """Brackets and quotes drawn at random spell an event now and then; nothing else is counted wrongly."""
    numbers = range(60, 60 + rounds(400))
    wrong = {number: fault for number in numbers if (fault := fault_of(*case(number)))}
    assert len(wrong) <= len(numbers) / 200, wrong


def event(number: int, **more: Any) -> bytes:
    found = {"ph": "X", "cat": "cpu_op", "name": f"op {number}", "pid": 1, "tid": 2, "ts": 1000 + 10 * number, "dur": 5}
    return json.dumps(found | more).encode()


def trace_of(*texts: bytes) -> bytes:
    return b'{"schemaVersion": 1, "traceEvents": [%s]}' % b", ".join(texts)


def uids(core: Core) -> dict[str, int]:
    return {
        core.names[name]: uid for name, uid in zip(core.columns.name.tolist(), core.columns.uid.tolist(), strict=True)
    }


TEN = [event(number) for number in range(10)]
THREE = b", ".join(TEN[4:7])
EACH = len(TEN[4])
BETWEEN = {
    "begin overwritten": (0, 20, b"#" * 20, 0, 1),
    "all overwritten": (0, EACH, b"\0" * EACH, 1, 0),
    "end and begin cut out": (EACH - 5, EACH + 12, b"", 0, 2),
    "one cut out between two": (EACH - 5, 2 * EACH + 14, b"", 1, 2),
    "a few zeros": (THREE.index(b'"pid"'), THREE.index(b', "tid"'), b"\0" * 8, 0, 1),
}
"""Where bytes of three events are taken out, what stands there then, events gone without a trace, events counted."""


@pytest.mark.parametrize("name", BETWEEN)
def test_what_lies_between_two_events_is_counted(name: str) -> None:
    begin, end, junk, gone, lost = BETWEEN[name]
    core = load_core(trace_of(*TEN[:4], THREE[:begin] + junk + THREE[end:], *TEN[7:]))
    assert core.info.lost_events == lost
    assert core.info.events == 10 - gone
    assert core.info.doubtful_from == 4 + lost
    kept = uids(core)
    assert {kept[f"op {number}"] for number in range(4)} == {0, 1, 2, 3}
    assert kept["op 9"] == 9 - gone


def test_the_words_for_losses() -> None:
    half = TEN[4][:40]
    core = load_core(trace_of(*TEN[:4], half, *TEN[5:]))
    assert core.info.damage == (
        f"entries lost: at least 1, bytes lost: {len(half)}; "
        "uids from 5 on may be smaller than the positions in the file"
    )
    (lost, bytes_lost, flagged) = zip(*inventory(core)["faults"].columns.values(), strict=True)
    assert lost == ("lost", "entries that no repair could save, at least", 1)
    assert bytes_lost == ("lost", "bytes that no repair could save", len(half))
    assert flagged[1:] == ("nodes whose uid may be smaller than the position in the file: from 5 on", 5)
    cut = load_core(trace_of(*TEN[:2])[: -len(TEN[1]) + 10])
    assert cut.info.damage.startswith("the end of the file is missing; entries lost: at least 1, bytes lost: ")
    assert cut.info.damage.endswith("; 1 entry is left, and GPU events usually stand last")


# ---- two processes ----


def test_two_processes_count_what_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "SPLIT_FROM", 0)
    monkeypatch.setattr(loader.threading, "active_count", lambda: 1)
    monkeypatch.setattr(loader.os, "sched_getaffinity", lambda pid: {0, 1})
    file = tmp_path / "trace.json"
    for number in range(rounds(48)):
        trace, _, edits = case(number)
        rng = random.Random(number)
        middle = len(trace.data) // 2 + rng.randint(-600, 600)
        at = Edit(middle, middle + 300, rng.choice((b"", b"\0" * 300)))
        apart = [edit for edit in edits if edit.end + 2000 < middle or edit.begin > middle + 2300]
        file.write_bytes(apply(trace.data, [*apart, at]))
        one, two = load_core(file, processes=1), load_core(file)
        assert two.info == one.info
        assert nodes(two) == nodes(one)
