"""The registry of questions: every one of them answers, knows its parameters, and says what is wrong with others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handmade import small_trace, span
from hypothesis import given
from made_traces import traces

from tracelens_graph.analyses.ops.ops import ops_summary
from tracelens_graph.analyses.questions import QUESTIONS, Parameter
from tracelens_graph.analyses.report import report_tables
from tracelens_graph.cypher import library
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.registry import REPORT, schema_of
from tracelens_graph.simulate import simulate
from tracelens_graph.tables.table import Table


@pytest.fixture(scope="module")
def ranks() -> TraceSet:
    run = simulate(ranks=2, steps=2, layers=1)
    return TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks}, run="job")


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_answered(ranks: TraceSet, name: str) -> None:
    question = QUESTIONS[name]
    table = question(ranks if question.several else ranks[0].graph)
    assert table.name == name
    assert set(table.columns) <= set(schema_of(name))
    assert question.answers.endswith(".")
    defaults = {one.name: one.default for one in question.parameters.values()}
    again = question(ranks if question.several else ranks[0].graph, **defaults)
    assert again.text() == table.text()


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_answered_of_an_empty_trace(name: str) -> None:
    empty = load_core({"traceEvents": []})
    question = QUESTIONS[name]
    several = TraceSet.of({"a": empty, "b": load_core({"traceEvents": [], "other": 1})})
    question(several if question.several else empty)


PARENT = ("Parent cpu_op", "Input dims", "Input strides", "Concrete Inputs")


@given(traces())
def test_tables_of_any_trace_are_whole_and_described(trace: dict[str, Any]) -> None:
    core = load_core(trace)
    for name, question in QUESTIONS.items():
        if question.query and not question.several:
            table = question(core)
            assert table.name == name
            # Without any op, short kernels have no parents, as in TraceLens.
            absent = {"path", *(PARENT if name == "short_kernels_summary" else ())}
            assert set(question.query.columns) - absent <= set(table.columns) == set(table.about)
            assert {len(cells) for cells in table.columns.values()} == {len(table)}


@pytest.mark.parametrize(
    "name",
    ["gpu_timeline", "ops_summary", "ops_summary_by_category", "ops_unique_args", "kernel_category_summary",
     "kernel_category_detail"],
)  # fmt: skip
def test_tables_of_gpu_events_say_that_there_are_none(name: str) -> None:
    table = QUESTIONS[name](load_core([span("cpu_op", "aten::mm", 0, 5)]))
    assert (len(table), list(table.notes)) == (0, ["the trace has no GPU events"])


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("outliving_events", None), ("stream_overlap", "GPU events"), ("odd_layers", "modules"), ("unusual_kernels", None),
     ("launch_delay", "launches")],
)  # fmt: skip
def test_an_empty_answer_names_only_what_it_needs(name: str, lacks: str | None) -> None:
    """A trace of ops and kernels, without modules and launches; and one of an op alone."""
    events = [span("cpu_op", "aten::mm", 0, 5), span("kernel", "k", 6, 5, 0, 7, device=0, stream=7)]
    notes = list(QUESTIONS[name](load_core(events[: 1 if lacks == "GPU events" else 2])).notes)
    assert notes == ([f"nothing of this is in the trace, which has no {lacks}"] if lacks else [])


def test_copies_of_rocm_without_bytes_have_no_rate() -> None:
    core = load_core([span("kernel", "__amd_rocclr_copyBuffer", 6, 5, 0, 7, device=0, stream=7)])
    assert len(QUESTIONS["copies"](core)) == 1
    assert list(QUESTIONS["copy_bandwidth"](core).notes) == [
        "1 of 1 copies and fills have no rate: no bytes recorded, or 0 ns"
    ]


def test_queries_have_their_columns_and_parameters() -> None:
    for name, query in library().items():
        question = QUESTIONS[name]
        assert question.query is query
        assert set(query.parameters) - {"trace"} <= set(question.parameters)
    assert QUESTIONS["idle_causes"].query is None


def test_a_step_is_a_window(ranks: TraceSet) -> None:
    core = ranks[0].core
    of_step = QUESTIONS["ops_summary"](core, step=3)
    columns = list(of_step.columns)
    assert of_step.records() == [
        {column: row[column] for column in columns} for row in ops_summary(core.window(step=3)).records()
    ]
    assert QUESTIONS["ops_summary"](core.window(step=3)).records() == of_step.records()


@pytest.mark.parametrize(
    "name", [name for name, one in QUESTIONS.items() if "step" in one.parameters and not one.several]
)
def test_a_step_that_is_not_there(ranks: TraceSet, name: str) -> None:
    with pytest.raises(AnalysisError, match="the trace has no step 7"):
        QUESTIONS[name](ranks[0], step=7)


@pytest.mark.parametrize("name", [name for name, one in QUESTIONS.items() if one.several])
@pytest.mark.parametrize(
    "conditions",
    [{"step": 3}, {"after_ns": 10**15}, {"under": "aten::mm"}],
    ids=lambda one: next(iter(one)),
)
def test_of_windows_of_several_traces(ranks: TraceSet, name: str, conditions: dict[str, Any]) -> None:
    windows = ranks.narrowed(**conditions)
    said = windows[0].window.title
    if name == "incomplete_traces":
        with pytest.raises(AnalysisError, match=rf"is asked of whole traces, not of a window \({said}\)"):
            QUESTIONS[name](windows)
        return
    table = QUESTIONS[name](windows)
    assert said in table.title
    if (name, *conditions) != ("signature_history", "under"):  # asked of the most expensive op, which that one is
        assert table.records() != QUESTIONS[name](ranks).records() or not len(table)


@pytest.mark.parametrize("name", [name for name in REPORT if name in QUESTIONS])
def test_tables_are_those_of_the_report(ranks: TraceSet, name: str) -> None:
    w = ranks[0].window
    asked, reported = QUESTIONS[name](w), report_tables.report_tables(w)[name]
    assert list(asked.columns) == list(reported.columns)
    assert asked.text() == Table(name, reported.columns, reported.about, asked.title, asked.notes).text()


def test_what_cannot_be_asked(ranks: TraceSet) -> None:
    with pytest.raises(AnalysisError, match="idle_gaps has no parameter 'tops'; did you mean top"):
        QUESTIONS["idle_gaps"](ranks[0].graph, tops=3)
    with pytest.raises(AnalysisError, match="idle_gaps is asked of one trace, not of 2"):
        QUESTIONS["idle_gaps"](ranks)
    with pytest.raises(AnalysisError, match="expected a graph or a window, not str"):
        QUESTIONS["rank_balance"]("traces/")


def test_lists_and_dictionaries_of_graphs_will_do() -> None:
    one, other = load_core(small_trace()), load_core(small_trace() | {"other": 1})
    table = QUESTIONS["run_history"]([one, other])
    assert len(table) == 2
    assert list(QUESTIONS["run_history"]({"a": one, "b": other})["trace"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("types", "text", "value"),
    [
        ((int, type(None)), "7", 7),
        ((int, type(None)), "null", None),
        ((int, str, type(None)), "7", 7),
        ((int, str, type(None)), "layer", "layer"),
        ((float,), "1.5", 1.5),
        ((bool,), "True", True),
        ((str, type(None)), "20260131", "20260131"),
        (("op", "call"), "call", "call"),
    ],
)
def test_values_from_text(types: tuple[Any, ...], text: str, value: Any) -> None:
    assert Parameter("p", types, None).read(text) == value


@pytest.mark.parametrize(
    ("types", "text", "wanted"),
    [
        ((int, type(None)), "abc", "a whole number or null"),
        ((bool,), "maybe", "true or false"),
        ((float,), "x", "a number"),
        (("op", "call"), "zzz", "op or call"),
    ],
)
def test_values_that_are_none(types: tuple[Any, ...], text: str, wanted: str) -> None:
    with pytest.raises(AnalysisError, match=f"p={text}: {wanted} is wanted"):
        Parameter("p", types, None).read(text)


def test_questions_go_by_the_extension_of_the_window(ranks: TraceSet) -> None:
    from tracelens_graph.extensions.extension import Extension

    core: Core = ranks[0].core
    w = Extension(registry={}).of(core)
    assert QUESTIONS["unmodelled_time"](w)["op"] != QUESTIONS["unmodelled_time"](core)["op"]


def test_a_member_of_a_set_is_a_graph(ranks: TraceSet) -> None:
    table = QUESTIONS["idle_gaps"](ranks[1])
    assert table.records() == QUESTIONS["idle_gaps"](ranks[1].graph).records()


def test_a_name_of_no_question_is_answered_with_a_hint() -> None:
    with pytest.raises(KeyError, match="there is no question 'rank_balanc'; did you mean rank_balance?"):
        QUESTIONS["rank_balanc"]
    assert "rank_balanc" not in QUESTIONS
    assert QUESTIONS.get("rank_balanc") is None


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("idle_gaps", {"top": "abc"}),
        ("idle_gaps", {"top": 1.5}),
        ("idle_gaps", {"top": float("nan")}),
        ("idle_gaps", {"top": -1}),
        ("idle_gaps", {"top": True}),
        ("idle_gaps", {"min_us": float("nan")}),
        ("idle_gaps", {"min_us": "1"}),
        ("rank_collectives", {"top": "abc"}),
        ("rank_collectives", {"kind": 7}),
        ("rank_collectives", {"top": None}),
    ],
)
def test_values_of_the_wrong_kind_are_refused(ranks: TraceSet, name: str, wrong: dict[str, Any]) -> None:
    ((parameter, value),) = wrong.items()
    with pytest.raises(AnalysisError, match=rf"^{parameter}={value!r}: a (whole )?(number|text).* is wanted$"):
        QUESTIONS[name](ranks if QUESTIONS[name].several else ranks[0], **wrong)


def test_values_of_numpy_are_numbers(ranks: TraceSet) -> None:
    assert len(QUESTIONS["idle_gaps"](ranks[0], top=np.int64(1), min_us=np.float32(0.5))) <= 1


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        (
            "slowest_ranks",
            {"kind": "nosuch"},
            "no collective is of kind 'nosuch'; there are _allgather_base, allreduce",
        ),
        (
            "rank_collectives",
            {"kind": "nosuch"},
            "no collective is of kind 'nosuch'; there are _allgather_base, allreduce",
        ),
        ("run_history", {"label": "commit"}, "no trace has a label 'commit'; the traces have no labels"),
        ("run_history", {"named": "rank9"}, "no trace is called 'rank9'; did you mean rank"),
        ("regressions", {"label": "commit"}, "no trace has a label 'commit'; the traces have no labels"),
        ("regressions", {"named": "rank9"}, "no trace is called 'rank9'; did you mean rank"),
        ("signature_history", {"op": "aten::mn"}, "no op is called 'aten::mn'; did you mean aten::mm"),
        ("run_history", {"run": "jub"}, "no run is called 'jub'; did you mean job?"),
        ("incomplete_traces", {}, "no file of 2 was damaged"),
        ("incomplete_traces", {"run": "jub"}, "no run is called 'jub'; did you mean job?"),
        ("ops_only_in_one", {}, "both traces have ops of the same names"),
        ("kernel_choices", {}, "where both traces ran an op with the same arguments"),
    ],
)
def test_an_empty_table_says_why(ranks: TraceSet, name: str, given: dict[str, Any], said: str) -> None:
    table = QUESTIONS[name](ranks, **given)
    assert len(table) == 0
    assert table.notes[-1].startswith(said)


@pytest.mark.parametrize("name", ["rank_balance", "rank_collectives"])
def test_ranks_need_others(ranks: TraceSet, name: str) -> None:
    assert QUESTIONS[name](ranks[:1]).notes[-1] == "1 trace: at least two ranks are needed"
    empty = load_core({"traceEvents": []})
    assert QUESTIONS[name]([empty, empty]).notes[-1] == "the traces have no communication kernels"
