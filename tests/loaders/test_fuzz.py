"""Whole traces with damage anywhere: what is whole is loaded, what is lost is counted, and nothing else is raised."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import LOSSES, SPELLING, Edit, Fault, Trace, apply, several
from profiles import rounds

from corpus import CHECKOUT, cases, traces_named
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.kineto import chunks, loader
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import REPAIR_MEANING

pytestmark = pytest.mark.proof

EXAMPLE = CHECKOUT / "examples/traces/tiny-transformer-cpu.json.gz"
SMALL = traces_named(
    "tracelens/h100/bert-small", "tracelens/mi300/torch-compile-triton", "hta/amd/mi250-minitoy",
    "hta/critical-path/simple-add", "hta/two-of-128-ranks/rank-0", "dlrm-8-ranks/kineto/rank3",
)  # fmt: skip
traces = pytest.mark.parametrize(
    "path",
    [
        pytest.param(EXAMPLE, id="tiny-transformer-cpu"),
        *cases((path.name.removesuffix(".json.gz"), path) for path in SMALL),
    ],
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many borders between chunks also in small traces."""
    monkeypatch.setattr(chunks, "BLOCK", 24 * 1024)


@cache
def sound(path: Path) -> Trace:
    return Trace(gzip.decompress(path.read_bytes()))


@cache
def whole(path: Path) -> dict[int, dict[str, Any]]:
    """All events of the sound trace."""
    return originals(load_core(sound(path).data))


def seeded(path: Path, *more: Any) -> random.Random:
    return random.Random(f"{path.name} {more}")


def loaded(source: bytes) -> Core | None:
    """The graph, or None where the file is refused, which must be in one line."""
    try:
        return load_core(source)
    except TraceError as error:
        message = str(error)
    assert "\n" not in message
    return None


def originals(core: Core) -> dict[int, dict[str, Any]]:
    return core.details.events(core.columns.uid.tolist())


def coded(core: Core, name: str, column: np.ndarray) -> Any:
    """A column, with what its codes stand for; codes are given in the order in which chunks are decoded."""
    tables = {"name": core.names, "argset": core.argsets, "thread": core.threads}
    table = tables.get(name)
    return column if table is None else [table[code] if code >= 0 else None for code in column.tolist()]


def counted(events: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(event, sort_keys=True) for event in events)


def assert_same_graph(core: Core, expected: Core) -> None:
    for name, column in core.columns:
        values, wanted = coded(core, name, column), coded(expected, name, getattr(expected.columns, name))
        assert np.array_equal(values, wanted) if isinstance(values, np.ndarray) else values == wanted, name
    assert (core.info.events, core.info.left_out) == (expected.info.events, expected.info.left_out)
    assert core.info.metadata == expected.info.metadata
    assert (core.info.processes, core.info.threads) == (expected.info.processes, expected.info.threads)
    assert core.info.lost_events == expected.info.lost_events
    assert core.info.cut_short == expected.info.cut_short
    assert originals(core) == originals(expected)


def assert_adds_up(core: Core) -> None:
    info = core.info
    assert len(core.columns) + sum(info.left_out.values()) + info.lost_events == info.events
    assert set(info.repairs) <= set(REPAIR_MEANING)
    assert len(originals(core)) == len(core.columns)


def check_spelling(trace: Trace, edits: list[Edit]) -> Core:
    core = load_core(apply(trace.data, edits))
    assert_same_graph(core, load_core(apply(trace.data, edits, meant=True)))
    assert_adds_up(core)
    assert core.info.lost_events == 0
    return core


def is_json(data: bytes) -> bool:
    """Some holes leave sound JSON behind."""
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def check_losses(path: Path, edits: list[Edit]) -> None:
    trace = sound(path)
    broken = apply(trace.data, edits)
    touched = trace.touched(edits)
    core = loaded(broken)
    if core is None:
        assert len(touched) == len(trace.spans)
        return
    assert_adds_up(core)
    untouched = counted(event for uid, event in whole(path).items() if uid not in touched)
    found = counted(originals(core).values())
    assert not untouched - found
    kept = len(core.columns) + sum(core.info.left_out.values())
    assert kept <= len(trace.spans)
    assert core.info.lost_events <= max(len(touched), 1)
    if kept < len(trace.spans):
        assert core.info.lost_events or core.info.repairs or is_json(broken)


@traces
@pytest.mark.parametrize("fault", SPELLING, ids=lambda fault: fault.__name__)
def test_a_fault_of_spelling_costs_nothing(path: Path, fault: Fault) -> None:
    rng = seeded(path, fault.__name__)
    for _ in range(rounds(12)):
        core = check_spelling(sound(path), fault(sound(path), rng))
        kind = {"doubled_comma": "trailing_comma", "log_line": "damage"}.get(fault.__name__, fault.__name__)
        assert core.info.repairs == {kind: 1}


@traces
@pytest.mark.parametrize("fault", LOSSES, ids=lambda fault: fault.__name__)
def test_a_loss_stays_where_it_is(path: Path, fault: Fault) -> None:
    rng = seeded(path, fault.__name__)
    for _ in range(rounds(12)):
        check_losses(path, fault(sound(path), rng))


@traces
@pytest.mark.parametrize("packing", ["plain", "gzip"])
def test_two_processes_repair_what_one_repairs(
    path: Path, packing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "SPLIT_FROM", 0)
    monkeypatch.setattr(loader.threading, "active_count", lambda: 1)
    monkeypatch.setattr(loader.os, "sched_getaffinity", lambda pid: {0, 1})
    rng = seeded(path, "processes")
    for number, faults in enumerate((SPELLING, [*SPELLING, *LOSSES])):
        broken = apply(sound(path).data, several(faults, sound(path), rng, 6))
        file = tmp_path / str(number)
        file.write_bytes(gzip.compress(broken) if packing == "gzip" else broken)
        one, two = load_core(file, processes=1), load_core(file)
        assert_same_graph(two, one)
        assert two.info.repairs == one.info.repairs
        assert two.info.lost_bytes == one.info.lost_bytes


@traces
def test_a_compressed_file_cut_anywhere(path: Path) -> None:
    rng, packed, trace = seeded(path, "gzip"), path.read_bytes(), sound(path)
    for _ in range(rounds(12)):
        length = rng.randrange(20, len(packed))
        text = zlib.decompressobj(wbits=31).decompress(packed[:length])
        complete = sum(end <= len(text) for _, end in trace.spans)
        core = loaded(packed[:length])
        if core is None:
            assert complete == 0
            continue
        assert originals(core) == {uid: event for uid, event in whole(path).items() if uid < complete}
        assert_adds_up(core)
        assert core.info.cut_short
        assert core.info.repairs == {"truncated": 1}
        assert core.info.lost_events == (core.info.lost_bytes > 0)
