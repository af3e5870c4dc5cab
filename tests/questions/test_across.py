"""Two traces side by side: signatures, kernels, ops, alignment by structure; and the history of many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from handmade import HOSTILE, span
from hypothesis import given
from made_traces import traces
from placed_traces import OLD, chain, graph_of, placed, two
from same_tables import Ask, assert_same

from tracelens_graph.analyses.across.spending import builds_of
from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.db.database import Database
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate
from tracelens_graph.tables.table import Table

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
    assert history(two(), label="commit")["label_value"] == ["b1", "a2"]  # texts as they were pushed
    assert history(two(), label="size")["label_value"] == ["9", "10"]  # as numbers; the first of several counts
    assert history(two(), label="empty")["label_value"] == [""]
    assert len(history(two(), label="comm")) == 0
    assert history(two(), named="new")["trace"] == ["new"]
    assert len(history(two(), run="elsewhere")) == 0


ORDERS = {
    "numbers": ("10", "-3", "2.5", "2.25"),
    "versions": ("1.12", "1.5", "1.10", "1.9", "v1.5.1", "2+cu121"),
    "dates": ("2026-11-02", "2026-9-30", "2025-12-31"),
    "hashes": ("f77c01", "417", "b77c01", "42", "1e5"),
    "some": ("", "2", "1"),
}
IN_ORDER = {
    "numbers": ["-3", "2.25", "2.5", "10"],
    "versions": ["1.5", "v1.5.1", "1.9", "1.10", "1.12", "2+cu121"],
    "dates": ["2025-12-31", "2026-9-30", "2026-11-02"],
    "hashes": list(ORDERS["hashes"]),  # as they were pushed
    "some": list(ORDERS["some"]),
}


@cache
def labelled(kind: str) -> list[TraceMember]:
    """A trace for each value of a label of that name."""
    return [
        placed(graph_of(OLD, of=f"{kind} {one}"), f"{kind} {one}", "r", (f"{kind}={value}",))
        for one, value in enumerate(ORDERS[kind])
    ]


@pytest.mark.parametrize("kind", ORDERS)
def test_values_of_a_label_are_in_their_order(kind: str) -> None:
    history = QUESTIONS["run_history"](labelled(kind), label=kind)
    assert history["label_value"] == IN_ORDER[kind]
    assert [build.name for build in builds_of(TraceSet(labelled(kind)), kind, None)] == IN_ORDER[kind]


@pytest.mark.parametrize("kind", ORDERS)
def test_the_database_has_them_in_that_order(ask: Ask, kind: str) -> None:
    assert_same(*ask(labelled(kind), "run_history", label=kind))
    assert_same(*ask(labelled(kind), "signature_history", label=kind))


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


@pytest.mark.parametrize("label", [None, "commit", "size", "empty", "nobody"])
def test_the_database_tells_the_same_history(ask: Ask, label: str | None) -> None:
    query, twin = ask(two(), "run_history", run="across", label=label)
    assert_same(query, twin)
    assert query["trace"] == twin["trace"]


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
