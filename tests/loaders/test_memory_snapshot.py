"""Snapshots of PyTorch's CUDA allocator: plain pickles, hostile ones, hand-made and recorded snapshots."""

from __future__ import annotations

import collections
import json
import os
import pickle
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_snapshots import MIB, PIECES, SNAPSHOT, entry

import tracelens_graph as tlg
from corpus import needs_corpus
from tracelens_graph.errors import DamagedTraceWarning, NotATraceError, TraceError
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


def test_a_snapshot_of_nothing_names_what_records_a_history() -> None:
    segment = {"device": 0, "address": 4096, "total_size": 9, "blocks": []}
    g = tlg.load(pickle.dumps({"segments": [segment], "device_traces": []}))
    assert any("_record_memory_history()" in note for note in tlg.QUESTIONS["memory_peak"](g).notes)


def test_what_was_there_before_the_history_is_no_event_of_it() -> None:
    g = tlg.load(pickle.dumps(SNAPSHOT))
    summary = tlg.QUESTIONS["memory_summary"](g).to_pandas().iloc[0]
    assert summary[["events", "start_bytes", "unreleased", "unreleased_bytes"]].tolist() == [4, 150, 1, 300]
    assert summary[["earlier", "earlier_bytes"]].tolist() == [1, 50]
    at_end = tlg.QUESTIONS["memory_at_end"](g).to_pandas()
    found = set(zip(at_end["module_path"], at_end["op"], at_end["bytes"], strict=True))
    assert ("(before the recording)", "train.py(1): load", 100) in found
    assert tlg.QUESTIONS["allocations_by_module"](g).to_pandas()["allocations"].sum() == 2


def test_an_address_that_is_given_out_again_was_released() -> None:
    entries = [entry("alloc", 10, 4096, 300, "first"), entry("alloc", 11, 4096, 200, "second")]
    blocks = [{"size": 200, "state": "active_allocated", "frames": []}]
    segment = {"device": 0, "address": 4096, "total_size": 200, "blocks": blocks}
    g = tlg.load(pickle.dumps({"segments": [segment], "device_traces": [entries]}))
    at_end = tlg.QUESTIONS["memory_at_end"](g).to_pandas()
    assert at_end[["op", "bytes"]].to_numpy().tolist() == [["train.py(1): second", 200]]


def test_what_is_in_use_but_in_no_block_is_noted() -> None:
    lost = [entry("alloc", 30, 9000, 70, "lost")]
    segments = [*SNAPSHOT["segments"]]
    history = [*SNAPSHOT["device_traces"][0], *lost]
    table = tlg.QUESTIONS["memory_at_end"](tlg.load(pickle.dumps({"segments": segments, "device_traces": [history]})))
    assert any("70 bytes of these are in no block" in note for note in table.notes)
    assert not any(
        "no block" in note for note in tlg.QUESTIONS["memory_at_end"](tlg.load(pickle.dumps(SNAPSHOT))).notes
    )


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
    [{"frames": [{"filename": "\ud800", "line": 1, "name": "f"}]}],
)
def test_entries_that_pytorch_does_not_write_are_an_error_in_one_line(odd: dict[str, Any]) -> None:
    entries = [entry("alloc", 10, 4196, 300, "forward") | odd]
    with pytest.raises(TraceError) as caught:
        tlg.load(pickle.dumps({**SNAPSHOT, "device_traces": [entries]}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("odd", [{"time_us": "soon"}, {"time_us": -1}, {"addr": []}, {"size": None}, {"action": 3}])
def test_broken_entries_count_as_lost(odd: dict[str, Any]) -> None:
    history = [*SNAPSHOT["device_traces"][0], entry("alloc", 30, 5000, 7, "forward") | odd]
    with pytest.warns(DamagedTraceWarning, match="entries lost: 1"):
        g = tlg.load(pickle.dumps({**SNAPSHOT, "device_traces": [history]}))
    assert tlg.QUESTIONS["memory_summary"](g).to_pandas()["peak_bytes"].tolist() == [650]


@given(st.lists(st.tuples(st.integers(2, 3000), st.integers(0, 255)), min_size=1, max_size=8), st.integers(1, 3000))
def test_a_damaged_snapshot_loads_or_is_an_error_of_ours(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(pickle.dumps(SNAPSHOT))
    for at, byte in changes:
        data[2 + at % (len(data) - 2)] = byte
    with suppress(TraceError, DamagedTraceWarning):
        tlg.load(bytes(data[: max(length, 3)]))


FIGURES = json.loads(Path(__file__).with_name("memory_viz_figures.json").read_text())
"""What PyTorch's own viewer says; see memory_viz_figures.py."""


def sizes(text: str) -> dict[str, int]:
    """Bytes of each line of the viewer's text: what stands in front of the last blank."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        name, _, size = line.rpartition(" ")
        found[name] += int(size)
    return found


@pytest.mark.parametrize("of", ["handmade", "pieces", pytest.param("recorded", marks=needs_corpus)])
def test_figures_are_those_of_the_viewer_of_pytorch(of: str, corpus: Path) -> None:
    file = corpus / "external/memory-snapshot/mosaic_output.pickle"
    g = tlg.load(file if of == "recorded" else pickle.dumps({"handmade": SNAPSHOT, "pieces": PIECES}[of]))
    figures = FIGURES[of]
    held, rounding = Counter[str](), 0
    for name, size in sizes(figures["memory"]).items():
        _, state, *stack = name.split(";")
        if state != "active_allocated":
            continue
        if stack == ["<gaps>"]:
            rounding += size
        else:
            held[stack[-1]] += size
    at_end = tlg.QUESTIONS["memory_at_end"](g).to_pandas()
    waiting = 300 if of == "pieces" else 0  # in use until its stream has passed
    assert at_end["bytes"].sum() == sum(held.values()) + waiting
    lines = {_as_viewed(op): size for op, size in zip(at_end["op"], at_end["bytes"], strict=True)}
    assert all(lines[line] == size for line, size in held.items() if line != "<non-python>")
    segments = tlg.QUESTIONS["memory_segments"](g).to_pandas()
    assert (segments["allocated_bytes"] - segments["requested_bytes"]).sum() == rounding
    by_address = Counter[int]()
    for name, size in sizes(figures["segments"]).items():
        _, address, state, *_ = name.split(";")
        by_address[int(address.removeprefix("seg_"))] += size if state == "active_allocated" else 0
    assert dict(zip(segments["address"], segments["allocated_bytes"], strict=True)) == {
        address: by_address[address] for address in segments["address"]
    }
    summary = tlg.QUESTIONS["memory_summary"](g).to_pandas()
    assert figures["allocations"] == (summary["events"].sum() - figures["releases"])
    if of != "recorded":  # whose blocks do not add up to their segments, which the viewer refuses
        free = segments["free_bytes"].sum() + segments["waiting_bytes"].sum() + rounding
        assert f"total_free: {_in_words(free)}" in figures["segsum"]
        assert f"total_reserved: {_in_words(segments['reserved_bytes'].sum())}" in figures["segsum"]


def _as_viewed(line: str | None) -> str:
    """A line of Python as the viewer writes it."""
    found = re.fullmatch(r"(?:.*/)?(.*)\((\d+)\): (.*)", line if isinstance(line, str) else "")
    return ":".join(found.groups()) if found else "<non-python>"


def _in_words(size: float) -> str:
    """Bytes as the viewer writes them."""
    power = int(size >= 1024) + int(size >= 1024**2)
    return f"{size / 1024**power:3.1f}{('B', 'KiB', 'MiB')[power]}"


@needs_corpus
def test_the_peak_of_a_recorded_snapshot_is_that_of_its_entries(corpus: Path) -> None:
    file = corpus / "external/memory-snapshot/mosaic_output.pickle"
    found = plain_value(file.read_bytes(), "x")
    (history,) = found["device_traces"]
    allocated = {one["addr"] for one in history if one["action"] == "alloc"}
    blocks = [block for segment in found["segments"] for block in segment["blocks"]]
    now = peak = sum(block["requested_size"] for block in blocks if block["address"] not in allocated)
    for one in history:  # which releases nothing that it did not allocate
        now += {"alloc": one["size"], "free_completed": -one["size"]}.get(one["action"], 0)
        peak = max(peak, now)
    summary = tlg.QUESTIONS["memory_summary"](tlg.load(file)).to_pandas().iloc[0]
    assert (summary["peak_bytes"], summary["end_bytes"]) == (peak, now) == (2_255_398_598, 466)


def test_segments_say_what_is_free_and_what_cannot_be_given_back() -> None:
    table = tlg.QUESTIONS["memory_segments"](tlg.load(pickle.dumps(PIECES))).to_pandas()
    names = ["device", "address", "reserved_bytes", "allocated_bytes", "waiting_bytes", "free_bytes", "split_bytes",
             "largest_free_bytes", "free_blocks", "blocks", "requested_bytes"]  # fmt: skip
    assert table[names].to_numpy().tolist() == [
        ["cuda:1", 50_000_000, 20 * MIB, 0, 0, 20 * MIB, 0, 20 * MIB, 1, 0, 0],
        ["cuda:1", 90_000_000, 40 * MIB, 30 * MIB, 0, 10 * MIB, 10 * MIB, 10 * MIB, 1, 1, 30 * MIB - 100],
        ["cuda:1", 4096, 2 * MIB, 1024, 512, 2 * MIB - 1536, 2 * MIB - 1536, 2 * MIB - 2560, 2, 2, 900],
    ]


def test_the_second_device_has_frames_annotations_and_failures() -> None:
    g = tlg.load(pickle.dumps(PIECES))
    peak = tlg.QUESTIONS["memory_peak"](g).records()
    assert [(row["device"], row["op"], row["bytes"]) for row in peak] == [
        ("cuda:1", "train.py(1): forward", 30 * MIB - 100),
        ("cuda:1", "train.py(1): load", 500),
        ("cuda:1", "train.py(1): backward", 400),
        ("cuda:1", None, 300),
    ]
    assert "1 allocation failed: out of memory (1,099,511,627,776 bytes)" in tlg.QUESTIONS["memory_peak"](g).notes
    assert [row["bytes"] for row in tlg.QUESTIONS["memory_peak"](g, step=3).records()] == [500, 400, 300]
    assert [row["bytes"] for row in tlg.QUESTIONS["memory_at_end"](g, step=4).records()] == [
        30 * MIB - 100,
        500,
        400,
        300,
    ]


def test_what_would_have_to_go_to_fit() -> None:
    g = tlg.load(pickle.dumps(PIECES))
    most = 30 * MIB + 1100
    table = tlg.QUESTIONS["memory_to_fit"](g, size=700)
    assert [(row["bytes"], row["left_bytes"]) for row in table.records()] == [(30 * MIB - 100, 1200), (500, 700)]
    assert f"cuda:1: {most - 700:,} bytes too many for 700: 2 blocks" in table.notes
    assert not len(tlg.QUESTIONS["memory_to_fit"](g, size=most))
    assert len(tlg.QUESTIONS["memory_to_fit"](g)) == 4


@pytest.mark.parametrize("rows", [5, "x", [1], [{}], [{"device": "0"}]])
def test_segments_that_nobody_writes_are_left_out(rows: Any) -> None:
    g = tlg.load({"traceEvents": [], "schemaVersion": 1, "memorySegments": rows})
    assert tlg.QUESTIONS["memory_segments"](g).notes == [
        "no segment is recorded: they stand in snapshots of CUDA memory"
    ]
