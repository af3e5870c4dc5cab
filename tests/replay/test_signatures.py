"""Which calls are chosen, and that each GPU event counts once."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from recorded_calls import GPU_US, calls

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.extensions.extension import Extension, Replayer
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import architecture
from tracelens_graph.replay.signatures import (
    Signatures,
    below_roof,
    charge_all,
    longest_on_host,
    named,
    of_event,
    signatures,
    with_schema,
)

FUSED = Extension(replayers={"my::fused": Replayer("my::fused(Tensor a, Tensor b) -> Tensor")})


@pytest.fixture(scope="module")
def w() -> Window:
    return load_core(calls()).everything


def told(found: Signatures) -> list[tuple[str, int, int, float, int]]:
    """Name, calls, GPU events, time in us and uid of each."""
    uids = found.core.columns.uid[found.rows].tolist()
    rows = zip(found.names, found.calls, found.gpu_events, found.charged_ns / 1e3, uids, strict=True)
    return [(name, int(count), int(events), float(us), uid) for name, count, events, us, uid in rows]


def test_work_is_charged_to_an_operation_with_a_schema(w: Window) -> None:
    assert told(signatures(charge_all(w))) == [
        ("c10d::allreduce_", 1, 1, 50.0, 16),
        ("aten::mm", 2, 2, 40.0, 4),
        ("my::fused", 1, 1, 37.0, 10),
        ("aten::mm", 1, 1, 25.0, 7),
        ("aten::copy_", 1, 1, 5.0, 11),
    ]


def test_on_the_host_outermost_operations_with_a_schema_are_taken() -> None:
    w = load_core({"traceEvents": [one for one in calls()["traceEvents"] if one["cat"] == "cpu_op"]}).everything
    assert [(name, count) for name, count, *_ in told(longest_on_host(w))] == [
        ("aten::matmul", 1), ("aten::mm", 1), ("aten::mm", 1), ("aten::copy_", 1), ("aten::view", 1),
    ]  # fmt: skip


def test_an_operation_that_launches_work_is_charged_all_below_it(w: Window) -> None:
    """Its program runs the operations below it, too, which are in no row of their own then."""
    charged = charge_all(FUSED.of(w))
    found = signatures(charged)
    assert ("my::fused", 1, 2, 42.0, 10) in told(found)
    assert "aten::copy_" not in found.names
    assert found.median_ns[found.names.index("my::fused")] == 42_000
    assert sorted(w.core.columns.dur_ns[charged.uncharged].tolist()) == [2000, 3000, 40000, 60000]


def test_the_median_is_over_all_calls(w: Window) -> None:
    found = signatures(charge_all(w))
    assert found.median_ns[1] == 20_000


def test_operations_by_name(w: Window) -> None:
    assert told(named(w, "aten::mm")) == [("aten::mm", 2, 2, 40.0, 4), ("aten::mm", 1, 1, 25.0, 7)]
    assert told(named(w, "my::fused")) == [("my::fused", 1, 2, 42.0, 10)]
    assert told(named(w, "aten::view")) == [("aten::view", 1, 0, 0.0, 26)]


def test_of_operations_within_one_another_that_counts_which_does_more(w: Window) -> None:
    found = told(named(w, re.compile("m(at)?mul|::mm")))
    assert [(name, us) for name, _, _, us, _ in found] == [("aten::mm", 40.0), ("aten::mm", 25.0)]
    assert [name for name, *_ in told(named(w, re.compile("fused|copy_")))] == ["my::fused"]
    assert told(named(w, "aten::matmul")) == [("aten::matmul", 1, 1, 10.0, 0)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("aten::mn", "did you mean aten::mm"),
        ("mm", "did you mean aten::mm"),
        ("conv", "the most GPU time: aten::mm, c10d::allreduce_, my::fused"),
        (re.compile("conv"), "has a name in which /conv/ is found; the most GPU time: aten::mm"),
    ],
)
def test_an_unknown_name_is_answered_with_names(w: Window, name: str, said: str) -> None:
    with pytest.raises(NodeNotFoundError, match=re.escape(said)):
        named(w, name)


@pytest.mark.parametrize(
    ("uid", "op", "calls_of_it"),
    [(4, 4, 2), (1, 1, 2), (0, 0, 1), (6, 4, 2), (5, 4, 2), (13, 11, 1), (15, 10, 1)],
)
def test_an_event_leads_to_its_operation(w: Window, uid: int, op: int, calls_of_it: int) -> None:
    ((_, count, _, _, found),) = told(of_event(w, uid))
    assert (found, count) == (op, calls_of_it)


@pytest.mark.parametrize(
    ("uid", "said"),
    [
        (20, "belongs to no operation"), (24, "belongs to no operation"), (25, "is no operation but a Module"),
        (999, "no node has uid 999"),
    ],
)  # fmt: skip
def test_an_event_of_no_operation_is_said(w: Window, uid: int, said: str) -> None:
    with pytest.raises(NodeNotFoundError, match=said):
        of_event(w, uid)


def test_a_window_narrows_what_counts(w: Window) -> None:
    late = w.core.window(after_ns=int(w.core.columns.start_ns[w.core.row(4)]))
    assert told(named(late, "aten::mm"))[0] == ("aten::mm", 1, 1, 30.0, 4)


def test_a_graph_without_events_has_none() -> None:
    found = signatures(charge_all(load_core({"traceEvents": []}).everything))
    assert len(found) == 0
    assert found.names == []


def test_below_the_roof_the_greatest_gain_comes_first(w: Window) -> None:
    found = below_roof(w, architecture("h100-sxm"))
    assert told(found)[:2] == [("aten::mm", 2, 2, 40.0, 4), ("aten::mm", 1, 1, 25.0, 7)]
    modelled = found.won_ns[~np.isnan(found.won_ns)]
    assert (np.diff(modelled) <= 0).all()
    assert np.isnan(found.won_ns[len(modelled) :]).all()  # without a model: last
    assert 39_000 < found.won_ns[0] < 40_000


@parametrize("path", chosen_traces())
def test_every_gpu_event_counts_once(path: Path) -> None:
    w = loaded(path).everything
    charged = charge_all(w)
    found, c = signatures(charged), w.core.columns
    assert int(found.charged_ns.sum()) + int(c.dur_ns[charged.uncharged].sum()) == int(c.dur_ns[w.gpu_rows].sum())
    assert int(found.gpu_events.sum()) + len(charged.uncharged) == len(w.gpu_rows)
    own = [place for place, name in enumerate(found.names) if with_schema(w)[c.name[found.rows[place]]]]
    assert (found.charged_ns[own] >= w.core.gpu_sum_ns[found.rows[own]]).all()  # nothing below a call is elsewhere
    if len(found):
        by_name = named(w, re.compile("."))
        assert int(by_name.gpu_events.sum()) >= int(found.gpu_events.sum())


def test_the_made_trace_is_as_it_says(w: Window) -> None:
    assert int(w.core.columns.dur_ns[w.gpu_rows].sum()) == GPU_US * 1000
