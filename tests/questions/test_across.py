"""Two traces side by side: signatures, kernels, ops; and the history of many."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import HOSTILE
from hypothesis import given
from made_traces import traces
from placed_traces import OLD, chain, dlrm, graph_of, pair_of, placed, simulated, two
from same_tables import Ask, assert_same

from corpus import needs_corpus
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

PAIR = {"a": "across/old", "b": "across/new"}


# --- two traces -------------------------------------------------------------------------------------------------


def test_common_signatures_count_calls_and_charged_time() -> None:
    rows = {(row["name"], row["input_dims"]): row for row in QUESTIONS["common_signatures"](two()).records()}
    assert list(rows) == [
        ("aten::mm", "[[8,16]]"),
        ("aten::relu", "[[8]]"),
        *sorted([("aten::mm", "[[4,4]]"), (HOSTILE, "[[8]]")]),
    ]
    mm = rows["aten::mm", "[[8,16]]"]
    assert (mm["count_a"], mm["count_b"]) == (2, 2)  # one call of the second launches nothing
    assert (mm["gpu_time_a_us"], mm["gpu_time_b_us"], mm["difference_us"]) == (32.0, 21.0, -11.0)
    assert mm["ratio"] == 21 / 32
    assert mm["input_strides"] is None


def test_who_delegates_in_one_trace_only_has_no_ratio_there() -> None:
    both = [
        placed(chain("aten::linear"), "across", "fused"),
        placed(chain("aten::linear", "aten::mm"), "across", "two"),
    ]
    (row,) = QUESTIONS["common_signatures"](both).records()
    assert (row["name"], row["gpu_time_a_us"], row["gpu_time_b_us"], row["ratio"]) == ("aten::linear", 4.0, 0.0, 0.0)
    (row,) = QUESTIONS["common_signatures"](both[::-1]).records()
    assert (row["gpu_time_a_us"], row["gpu_time_b_us"], row["ratio"]) == (0.0, 4.0, None)
    assert len(QUESTIONS["kernel_choices"](both)) == 0


def test_other_kernels_cost_what_the_calls_of_b_take_longer() -> None:
    mm, relu = QUESTIONS["kernel_choices"](two()).records()
    assert (mm["name"], mm["kernels_a"], mm["kernels_b"]) == ("aten::mm", ["gemm_a", "reduce_a"], ["gemm_b"])
    assert (mm["count_a"], mm["count_b"], mm["call_time_a_us"], mm["call_time_b_us"]) == (2, 2, 16.0, 10.5)
    assert mm["cost_us"] == -11.0
    # Short names would be the same.
    assert (relu["kernels_a"], relu["kernels_b"]) == (["void relu<4>(int)"], ["void relu<8>(int)"])
    assert relu["cost_us"] == -2.0


def test_ops_only_in_one() -> None:
    assert list(QUESTIONS["ops_only_in_one"](two()).rows()) == [
        ("across/old", "aten::gone", 2, 8.0),
        ("across/new", "aten::fresh", 1, 0.0),
    ]


def test_the_last_two_are_compared_unless_others_are_named() -> None:
    old, new = two()
    more = placed(graph_of(OLD, extra=1), "other run", "old")
    both, compare = [old, new, more], QUESTIONS["ops_only_in_one"]
    assert set(compare(both)["only_in"]) == {"across/new", "other run/old"}
    assert set(compare(both, b="new")["only_in"]) == {"across/old", "across/new"}
    assert set(compare(both, a="new", b=old.core.trace_id)["only_in"]) == {"across/old", "across/new"}
    assert len(compare(both, a="across/old")) == 0


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"a": "nobody"}, "no trace is called 'nobody' among: across/old"),
        ({"b": "across/old"}, "there is no trace before across/old"),
        ({"a": "across/new", "b": "new"}, "across/new is compared with itself"),
    ],
)
def test_traces_that_are_not_there(named: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        QUESTIONS["common_signatures"](two(), **named)


def test_a_name_of_several_is_none() -> None:
    again = placed(graph_of(OLD, extra=1), "other run", "old")
    with pytest.raises(AnalysisError, match="old is the name of several traces: across/old, other run/old"):
        QUESTIONS["kernel_choices"]([*two(), again], a="old")
    with pytest.raises(AnalysisError, match="there are no traces"):
        QUESTIONS["kernel_choices"]([])


@given(traces(), traces())
@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.DamagedTraceWarning")
def test_comparing_the_other_way_round_turns_the_differences(one: dict[str, Any], other: dict[str, Any]) -> None:
    a, b = placed(load_core(one), "made", "a"), placed(load_core(other), "made", "b")
    there, back = (QUESTIONS["common_signatures"]([a, b], a=x, b=y, top=10**6) for x, y in (("a", "b"), ("b", "a")))
    turned = [
        (*row[:5], row[6], row[5], row[8], row[7], -row[10]) for row in back.rows()
    ]  # fmt: skip
    assert [(*row[:9], row[10]) for row in there.rows()] == turned
    lone = {name for placed in (a, b) for name in QUESTIONS["ops_only_in_one"]([a, b])["name"]}
    names = [{p.core.names[code] for code in p.core.columns.name[p.core.columns.kind == Kind.Op]} for p in (a, b)]
    assert lone == names[0] ^ names[1]


@given(traces())
@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.DamagedTraceWarning")
def test_a_trace_against_itself_has_all_charged_time_and_no_other_choice(trace: dict[str, Any]) -> None:
    same = [placed(load_core(trace), "made", "a"), placed(load_core(trace), "made", "b")]
    table = QUESTIONS["common_signatures"](same, a="made/a", b="made/b", top=10**6)
    c, gpu = same[0].core.columns, same[0].core.gpu_rows
    charged = int(c.dur_ns[gpu[c.owner[gpu] >= 0]].sum())
    assert round(sum(table["gpu_time_a_us"]) * 1000) == charged
    assert not any(table["difference_us"])
    assert len(QUESTIONS["kernel_choices"](same)) == len(QUESTIONS["ops_only_in_one"](same)) == 0


# --- windows ----------------------------------------------------------------------------------------------------


def test_of_windows_only_what_lies_in_them_counts() -> None:
    first = TraceSet(two()).narrowed(before_ns=95_000)  # the first call of each
    (row,) = QUESTIONS["common_signatures"](first).records()
    assert (row["name"], row["count_a"], row["count_b"]) == ("aten::mm", 1, 1)
    assert (row["gpu_time_a_us"], row["gpu_time_b_us"]) == (12.0, 10.0)
    (row,) = QUESTIONS["kernel_choices"](first).records()
    assert (row["kernels_a"], row["call_time_a_us"], row["cost_us"]) == (["gemm_a", "reduce_a"], 12.0, -2.0)
    assert len(QUESTIONS["ops_only_in_one"](first)) == 0
    for name in ("common_signatures", "kernel_choices", "ops_only_in_one", "run_history"):
        table = QUESTIONS[name](TraceSet(two()).narrowed(after_ns=10**9))
        assert table.title.endswith(" (from 1,000.000 ms)")
        assert len(table) == (2 if name == "run_history" else 0)


def test_a_call_counts_where_a_kernel_of_it_is_in_the_window() -> None:
    launched_before = TraceSet(two()).narrowed(after_ns=35_000, before_ns=45_000)  # reduce_a alone
    (row,) = QUESTIONS["ops_only_in_one"](launched_before).records()
    assert (row["only_in"], row["name"], row["count"], row["gpu_time_us"]) == ("across/old", "aten::mm", 1, 2.0)


def test_a_file_is_not_incomplete_in_a_window() -> None:
    with pytest.raises(AnalysisError, match=r"asked of whole traces, not of a window \(stream 7\)"):
        QUESTIONS["incomplete_traces"](TraceSet(two()).narrowed(stream=7))


# --- history ----------------------------------------------------------------------------------------------------


def test_history_in_the_order_of_pushing() -> None:
    first, second = QUESTIONS["run_history"](two()).records()
    assert (first["trace"], first["gpu_total_ms"], first["gpu_busy_ms"]) == ("old", 0.701, 0.049)
    assert (first["computation_ms"], first["exposed_comm_ms"], first["label_value"]) == (0.049, 0.0, None)
    assert first["idle_percent"] == pytest.approx(100 * 652 / 701)
    assert first["total_change_percent"] is None
    assert second["busy_change_percent"] == pytest.approx(100 * (28 - 49) / 49)


def test_history_in_the_order_of_a_label() -> None:
    history = QUESTIONS["run_history"]
    assert history(two(), label="commit")["label_value"] == ["a2", "b1"]
    assert history(two(), label="size")["label_value"] == ["9", "10"]  # as numbers; the first of several counts
    assert history(two(), label="empty")["label_value"] == [""]
    assert len(history(two(), label="comm")) == 0
    assert history(two(), named="new")["trace"] == ["new"]
    assert len(history(two(), run="elsewhere")) == 0


def test_numbers_come_before_other_values() -> None:
    core = two()[0].core
    values = ["v2", "10", "-3", "2.5", "1e1", ""]
    named = [placed(core, "r", str(n), (f"k={value}",)) for n, value in enumerate(values)]
    assert QUESTIONS["run_history"](named, label="k")["label_value"] == ["-3", "2.5", "10", "", "1e1", "v2"]


def test_a_trace_without_gpu_work_takes_no_time() -> None:
    idle = placed(graph_of([("aten::view", [[8]], [])]), "across", "idle")
    first, second = QUESTIONS["run_history"]([idle, two()[0]]).records()
    assert (first["gpu_total_ms"], first["gpu_busy_ms"], first["idle_percent"]) == (0.0, 0.0, None)
    assert second["total_change_percent"] is None


# --- the database says the same -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["common_signatures", "kernel_choices", "ops_only_in_one"])
def test_the_database_compares_alike(ask: Ask, name: str) -> None:
    assert_same(*ask(two(), name, **PAIR))
    assert_same(*ask(two(), name, a="across/new", b="across/old"))


@needs_corpus
@pytest.mark.parametrize("model", ["bert-small", "qwen1.5-0.5b"])
@pytest.mark.parametrize("name", ["common_signatures", "kernel_choices", "ops_only_in_one"])
def test_the_database_compares_platforms_alike(ask: Ask, name: str, model: str) -> None:
    h100, mi300 = pair_of(model)
    query, twin = ask((h100, mi300), name, a=h100.path, b=mi300.path)
    assert_same(query, twin)
    assert len(twin) > 0 or name == "ops_only_in_one"


def test_the_first_rows_are_the_same(ask: Ask) -> None:
    query, twin = ask(two(), "common_signatures", **PAIR, top=2)
    assert_same(query, twin)
    assert query["name"] == twin["name"] == ["aten::mm", "aten::relu"]
    assert twin.notes == ["the first 2 of 4 rows (top 0 shows all)"]


@pytest.mark.parametrize("name", ["common_signatures", "kernel_choices"])
def test_none_as_the_number_of_rows_gives_all(ask: Ask, name: str) -> None:
    query, twin = ask(two(), name, **PAIR, top=0)
    assert_same(query, twin)
    assert len(twin) == len(QUESTIONS[name](two())) > 1
    assert twin.notes == []
    with pytest.raises(AnalysisError, match="top=-1: a whole number from 0 on is wanted"):
        QUESTIONS[name](two(), top=-1)


@pytest.mark.parametrize("label", [None, "commit", "size", "empty", "nobody"])
def test_the_database_tells_the_same_history(ask: Ask, label: str | None) -> None:
    query, twin = ask(two(), "run_history", run="across", label=label)
    assert_same(query, twin)
    assert query["trace"] == twin["trace"]


def test_a_history_with_communication(ask: Ask) -> None:
    placed, _ = simulated()
    query, twin = ask(placed, "run_history", run=placed[0].run, named="rank0")
    assert_same(query, twin)
    assert twin["exposed_comm_ms"][0] > 0


@needs_corpus
def test_the_history_of_eight_ranks(ask: Ask) -> None:
    assert_same(*ask(dlrm(), "run_history", run="across dlrm"))
