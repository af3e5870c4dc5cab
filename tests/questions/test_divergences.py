"""Two traces aligned by structure: where they differ, which kernels took whose place, which layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from handmade import span
from placed_traces import pair_of, placed
from same_tables import Ask, assert_same

from corpus import needs_corpus
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.steps import median_steps
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.db.database import Database
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate
from tracelens_graph.tables.table import Table

Pair = tuple[TraceMember, TraceMember]
NAMES = ("diff_places", "kernel_replacements", "layer_differences")


def model(layers: Sequence[Sequence[tuple[str, list[str], float]]], **more: Any) -> Any:
    """Layers in a model, each a list of ops with the kernels that each launches, all of one duration."""
    events, at, correlation = [], 10.0, 0
    for number, ops in enumerate(layers):
        begin = at
        for name, kernels, dur in ops:
            events.append(span("cpu_op", name, at + 1, 18.0))
            for place, kernel in enumerate(kernels):
                correlation += 1
                events.append(span("cuda_runtime", "cudaLaunchKernel", at + 2 + place, 0.5, correlation=correlation))
                where = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
                events.append(span("kernel", kernel, at + 5 + 5 * place, dur, **where, correlation=correlation))
            at += 20
        events.append(span("python_function", f"nn.Module: Layer_{number}", begin, at - begin, Python_id=number + 1))
        at += 10
    events.append(span("python_function", "nn.Module: Model_0", 5.0, at, Python_id=99))
    return load_core({"traceEvents": events, **more})


MM, RELU = ("aten::mm", ["gemm_old"], 4.0), ("aten::relu", ["relu"], 1.0)
NEW = ("aten::mm", ["gemm_new"], 3.0)
SPLIT = ("aten::mm", ["gemm_old", "gemm_reduce"], 2.0)


@cache
def handmade() -> Pair:
    """Three layers against four, in which one op has another kernel and one two instead of one."""
    return (
        placed(model([[MM, RELU]] * 3), "diverging", "old"),
        placed(model([[NEW, RELU], [SPLIT, RELU], [MM, RELU], [MM, RELU]]), "diverging", "new"),
    )


@cache
def simulated_pair() -> Pair:
    a, b = (load_core(simulate(1, steps=2, layers=layers, seed=51).ranks[0].trace) for layers in (3, 4))
    return placed(a, "diverging simulated", "three"), placed(b, "diverging simulated", "four")


@pytest.fixture
def compared(ask: Ask, database: Database) -> Callable[..., tuple[Table, Table]]:
    """Both answers about two traces whose comparison is in the database."""

    def answers(pair: Pair, name: str, **parameters: Any) -> tuple[Table, Table]:
        a, b = pair
        ask(pair, "ops_only_in_one", a=a.path, b=b.path)  # pushes them
        database.push_diff(Diff(*median_steps(a.window, b.window), (a.name, b.name)))
        return ask(pair, name, a=a.path, b=b.path, **parameters)

    return answers


# --- answers ----------------------------------------------------------------------------------------------------


def test_kernels_in_the_place_of_others() -> None:
    table = QUESTIONS["kernel_replacements"](handmade())
    rows = {(row["kernel_a"], row["kernel_b"]): row for row in table.records()}
    new, split = rows["gemm_old", "gemm_new"], rows["gemm_old", "gemm_reduce"]
    assert (new["op"], new["events_a"], new["events_b"], new["change_us"]) == ("aten::mm", 1, 1, -1.0)
    assert (split["op"], split["events_b"], split["gpu_time_b_us"]) == ("aten::mm", 1, 2.0)
    # The layer that only b has.
    assert (rows[None, "gemm_old"]["events_a"], rows[None, "gemm_old"]["gpu_time_b_us"]) == (0, 4.0)
    assert rows[None, "relu"]["op"] == "aten::relu"
    assert ("relu", "relu") not in rows
    only = QUESTIONS["kernel_replacements"](handmade(), kernel="new").records()
    assert only == [new]


def test_layers_that_differ() -> None:
    rows = QUESTIONS["layer_differences"](handmade()).records()
    assert {row["inside"] for row in rows} == {"nn.Module: Model_0"}
    (extra,) = [row for row in rows if row["layer_a"] is None]
    assert (extra["kind"], extra["gpu_time_a_us"], extra["gpu_time_b_us"]) == ("only in b", 0.0, 5.0)
    kinds = {row["change_us"]: row["kind"] for row in rows}
    assert sorted(kinds) == [-1.0, 0.0, 5.0]
    assert (kinds[-1.0], kinds[5.0]) == ("identical", "only in b")
    assert kinds[0.0] != "identical"  # two kernels in place of one, in the same time


def test_places_add_up_to_the_change() -> None:
    for pair in (handmade(), simulated_pair()):
        windows = median_steps(pair[0].window, pair[1].window)
        table = QUESTIONS["diff_places"](pair, top=0)
        change = [int(w.core.columns.dur_ns[w.gpu_rows].sum()) for w in windows]
        assert round(sum(table["change_ms"]) * 1e6) == change[1] - change[0]


def test_the_other_way_round_turns_the_changes() -> None:
    for pair in (handmade(), simulated_pair()):
        for name in NAMES:
            there, back = QUESTIONS[name](pair, top=0), QUESTIONS[name](pair[::-1], top=0)
            change = "change_ms" if name == "diff_places" else "change_us"
            assert sorted(there[change]) == sorted(-x for x in back[change])


def test_a_trace_against_its_copy_has_no_differences() -> None:
    core, again = (model([[MM, RELU]] * 3, copy=number) for number in (1, 2))
    same = {"a": core, "b": again}
    assert not any(QUESTIONS["diff_places"](same)["change_ms"])
    for name, said in (("kernel_replacements", "no other kernel took"), ("layer_differences", "no layer differs")):
        table = QUESTIONS[name](same)
        assert len(table) == 0
        assert any(said in note for note in table.notes)


def test_windows_are_taken_as_they_are() -> None:
    steps = TraceSet(simulated_pair()).narrowed(step=3)
    table = QUESTIONS["diff_places"](steps, top=0)
    assert "step 3" in table.title
    ns = [int(one.core.columns.dur_ns[one.window.gpu_rows].sum()) for one in steps]
    assert round(sum(table["change_ms"]) * 1e6) == ns[1] - ns[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_first_rows(name: str) -> None:
    assert QUESTIONS[name](handmade(), top=1).notes[0].startswith("the first 1 of ")
    with pytest.raises(AnalysisError, match="top=-1"):
        QUESTIONS[name](handmade(), top=-1)


# --- the database says the same ---------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [handmade, simulated_pair])
@pytest.mark.parametrize("name", NAMES)
def test_the_database_says_the_same(compared: Ask, name: str, pair: Callable[[], Pair]) -> None:
    query, twin = compared(pair(), name)
    assert_same(query, twin)
    assert len(twin) > 0
    query, twin = compared(pair(), name, top=2)
    assert_same(query, twin)
    assert list(query[next(iter(query.columns))]) == list(twin[next(iter(query.columns))])


def test_the_database_finds_the_same_kernels(compared: Ask) -> None:
    query, twin = compared(handmade(), "kernel_replacements", kernel="reduce")
    assert_same(query, twin)
    assert len(twin) == 1


@needs_corpus
@pytest.mark.parametrize("model", ["bert-small", "qwen1.5-0.5b"])
@pytest.mark.parametrize("name", NAMES)
def test_the_database_says_the_same_of_platforms(compared: Ask, name: str, model: str) -> None:
    query, twin = compared(pair_of(model), name, top=0)
    assert_same(query, twin)
    assert len(twin) >= 10
