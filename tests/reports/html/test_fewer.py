"""Few of many events: the longest of each kind, what launched them, and what is told of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import loaded, parametrize, traces_named
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.drawn import DRAWN_KINDS, Drawn, columns, drawn
from tracelens_graph.reports.html.fewer import LeftOut, longest_events, used_names
from tracelens_graph.reports.html.names import Names

TRACES = traces_named(
    "tracelens/h100/qwen1.5-0.5b", "tracelens/mi210/gpu-only", "hta/cpu-only/rank-34",
    "hta/critical-path/event-sync-multi-stream",
)  # fmt: skip


def check(w: Window, d: Drawn, kept: Drawn, left_out: list[LeftOut], most: int) -> None:
    c = w.core.columns
    assert kept.events + len(kept.idle.row) <= max(most, 0) or not left_out
    told = {one.what: one for one in left_out}
    for what, rows, rest in (
        ("GPU events", d.gpu, kept.gpu),
        ("calls of the host", d.host, kept.host),
        ("annotations", d.notes, kept.notes),
    ):
        missing = np.setdiff1d(rows, rest)
        assert set(rest.tolist()) <= set(rows.tolist())
        if not len(missing):
            assert what not in told
            continue
        assert (told[what].count, told[what].of) == (len(missing), len(rows))
        assert told[what].longest_ns == int(c.dur_ns[missing].max())
        if what != "calls of the host" and len(rest):
            assert int(c.dur_ns[rest].min()) >= told[what].longest_ns
    launches = c.parent[kept.gpu]
    assert np.isin(launches[launches >= 0], kept.host).all()
    parent_depth = dict(zip(kept.host.tolist(), kept.depth.tolist(), strict=True))
    for row, depth in parent_depth.items():
        around = 0
        while (row := int(c.parent[row])) >= 0:
            around += row in parent_depth
        assert depth == around


@given(traces(), st.integers(1, 40))
def test_the_longest_stay_with_their_launches(trace: dict[str, Any], most: int) -> None:
    w = load_core(trace).everything
    d = drawn(w)
    check(w, d, *longest_events(w, d, most), most)


@parametrize("path", TRACES)
def test_real_traces(path: Path) -> None:
    w = loaded(path).everything
    d = drawn(w)
    for most in (100, 1000):
        check(w, d, *longest_events(w, d, most), most)
    kept, left_out = longest_events(w, d, d.events + len(d.idle.row))
    assert kept is d
    assert left_out == []


@parametrize("path", TRACES[:1])
def test_idle_gaps_keep_what_they_are_due_to(path: Path) -> None:
    w = loaded(path).everything
    d = drawn(w)
    kept, _ = longest_events(w, d, 1000)
    place = np.flatnonzero(np.isin(d.idle.row, kept.idle.row))
    assert len(kept.idle.row) == 62
    assert kept.idle.parts.tolist() == d.idle.parts[:, place].tolist()
    assert kept.idle.total_ns == d.idle.total_ns


@parametrize("path", TRACES)
def test_names_that_are_used_are_numbered_anew(path: Path) -> None:
    w = loaded(path).everything
    names = Names(w, DRAWN_KINDS)
    kept, _ = longest_events(w, drawn(w), 200)
    whole = columns(w, kept, names)
    again, texts = used_names(whole, names, 30)
    assert len(texts["names"]) == len(texts["shorts"]) == len(again["name.class"].values) <= len(names.texts)
    assert max(map(len, filter(None, (*texts["names"], *texts["shorts"])))) <= 30 + len("...")
    for part in ("host.name", "note.name", "gpu.name"):
        for old, new in zip(whole[part].values.tolist(), again[part].values.tolist(), strict=True):
            told = texts["names"][new]
            assert told == names.texts[old] or len(names.texts[old]) > 30
            assert again["name.class"].values[new] == names.classes[old]
    assert again["host.start"] is whole["host.start"]


def test_what_is_left_out_reads_as_a_sentence() -> None:
    assert str(LeftOut("GPU events", 1_207, 1_707, 31_712)) == "1,207 of 1,707 GPU events, none longer than 31.712 µs"
