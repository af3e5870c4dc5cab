"""Snapshots of PyTorch's CUDA allocator: plain pickles, hostile ones, hand-made and recorded snapshots."""

from __future__ import annotations

import collections
import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracelens_graph as tlg
from corpus import needs_corpus
from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.loaders.memory_snapshot.pickles import plain_value

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner) | st.tuples(inner),
    max_leaves=20,
)


@given(PLAIN, st.integers(2, 5))
def test_plain_values_are_read_as_python_reads_them(value: Any, protocol: int) -> None:
    assert plain_value(pickle.dumps(value, protocol), "x") == value


class Exploit:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/this-must-not-run",)


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("what", [Exploit(), collections.OrderedDict(a=1), {"segments": [print]}, Path("x"), {1, 2}])
def test_a_pickle_that_does_more_is_refused_in_one_line(what: Any, protocol: int) -> None:
    with pytest.raises(NotATraceError, match="does more than hold plain values") as caught:
        tlg.load(pickle.dumps(what, protocol))
    assert "\n" not in str(caught.value)
    assert not Path("/tmp/this-must-not-run").exists()


def frames(*names: str) -> list[dict[str, Any]]:
    """Frames, the innermost first."""
    return [{"filename": "train.py", "line": line, "name": name} for line, name in enumerate(names, 1)]


def entry(action: str, at: int, address: int, size: int, *names: str) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": at, "frames": frames(*names)}


SNAPSHOT = {
    "segments": [
        {
            "device": 0, "address": 4096, "total_size": 1000,
            "blocks": [
                {"size": 100, "state": "active_allocated", "frames": frames("load", "main")},  # before the history
                {"size": 300, "state": "active_allocated", "frames": frames("forward", "step", "main")},
                {"size": 600, "state": "inactive", "frames": []},
            ],
        },
    ],
    "device_traces": [
        [
            entry("segment_alloc", 10, 4096, 1000),
            entry("alloc", 10, 4196, 300, "forward", "step", "main"),
            entry("alloc", 10, 4496, 200, "backward", "step", "main"),
            entry("free_completed", 20, 4496, 200),
            entry("free_completed", 21, 9999, 50),  # of a block that was there before
        ],
    ],
}  # fmt: skip


def test_a_snapshot_shows_who_held_memory_at_its_peak() -> None:
    g = tlg.load(pickle.dumps(SNAPSHOT))
    summary = tlg.QUESTIONS["memory_summary"](g).to_pandas().iloc[0]
    assert (summary["peak_bytes"], summary["end_bytes"]) == (650, 400)  # 100 + 50 before, 300, 200
    assert summary["peak_reserved_bytes"] == 1000
    changes = [(data["bytes"], data["start_ns"]) for _, data in g.nodes(data=True) if data["kind"] == "MemoryEvent"]
    assert sorted(change for change, _ in changes) == [-200, -50, 50, 100, 200, 300]
    peak = tlg.QUESTIONS["memory_peak"](g).to_pandas()
    assert peak["bytes"].sum() == 650
    forward = next(uid for uid, name in g.nodes(data="name") if name == "train.py(1): forward")
    assert [g.nodes[uid]["name"] for uid in g.tree.predecessors(forward)] == ["train.py(2): step"]
    assert g.info.start_epoch_ns == 9000  # 1 us before the history


def test_a_snapshot_without_history_shows_what_is_held() -> None:
    g = tlg.load(pickle.dumps({**SNAPSHOT, "device_traces": []}))
    assert tlg.QUESTIONS["memory_summary"](g).to_pandas()["peak_bytes"].tolist() == [400]


@pytest.mark.parametrize(
    "what", [[], {"a": 1}, {"segments": [1], "device_traces": [[]]}, {"segments": 1, "device_traces": 2}]
)
def test_another_pickle_is_an_error_in_one_line(what: Any) -> None:
    with pytest.raises(TraceError) as caught:
        tlg.load(pickle.dumps(what))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "odd",
    [{"time_us": "soon"}, {"frames": [{"filename": "\ud800", "line": 1, "name": "f"}]}, {"addr": []}],
)
def test_entries_that_pytorch_does_not_write_are_an_error_in_one_line(odd: dict[str, Any]) -> None:
    entries = [entry("alloc", 10, 4196, 300, "forward") | odd]
    with pytest.raises(TraceError) as caught:
        tlg.load(pickle.dumps({**SNAPSHOT, "device_traces": [entries]}))
    assert "\n" not in str(caught.value)


@given(st.lists(st.tuples(st.integers(2, 3000), st.integers(0, 255)), min_size=1, max_size=8), st.integers(1, 3000))
def test_a_damaged_snapshot_loads_or_is_an_error_of_ours(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(pickle.dumps(SNAPSHOT))
    for at, byte in changes:
        data[2 + at % (len(data) - 2)] = byte
    with suppress(TraceError):
        tlg.load(bytes(data[: max(length, 3)]))


@needs_corpus
def test_a_recorded_snapshot_has_the_figures_of_its_own_entries(corpus: Path) -> None:
    file = corpus / "external/memory-snapshot/mosaic_output.pickle"
    found = plain_value(file.read_bytes(), "x")
    (history,) = found["device_traces"]
    now = peak = sum(e["size"] for e in _missing(history)) + sum(size for _, size in _held(found, history))
    for one in history:
        now += {"alloc": one["size"], "free_completed": -one["size"]}.get(one["action"], 0)
        peak = max(peak, now)
    summary = tlg.QUESTIONS["memory_summary"](tlg.load(file)).to_pandas().iloc[0]
    assert (summary["peak_bytes"], summary["end_bytes"]) == (peak, now)


def _missing(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Releases of what was not allocated in the history."""
    alive: set[int] = set()
    missing = []
    for one in history:
        if one["action"] == "alloc":
            alive.add(one["addr"])
        elif one["action"] == "free_completed":
            if one["addr"] not in alive:
                missing.append(one)
            alive.discard(one["addr"])
    return missing


def _held(found: dict[str, Any], history: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Blocks in use at the end that the history does not allocate: address and size."""
    alive: set[int] = set()
    for one in history:
        {"alloc": alive.add, "free_completed": alive.discard}.get(one["action"], lambda address: None)(one["addr"])
    blocks = [block for segment in found["segments"] for block in segment["blocks"] if block["state"] != "inactive"]
    return [(block["address"], block["size"]) for block in blocks if block["address"] not in alive]
