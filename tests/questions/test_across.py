"""Several traces side by side: signatures, kernels, ops, history, and the collectives of the ranks of a run."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from handmade import HOSTILE, span
from hypothesis import given
from made_traces import traces
from same_tables import assert_same

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.questions.across import QUESTIONS
from tracelens_graph.analyses.questions.placed import Placed
from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate
from tracelens_graph.table import Table

Ask = Callable[..., tuple[Table, Table]]
Call = tuple[str, list[Any], list[tuple[str, float]]]
"""Name of an op, dims of its inputs, and the kernels that it launches with their durations in us."""

PAIR = {"a": "across/old", "b": "across/new"}
OLD: list[Call] = [
    ("aten::mm", [[8, 16]], [("gemm_a", 10.0), ("reduce_a", 2.0)]),
    ("aten::mm", [[8, 16]], [("gemm_a", 20.0)]),
    ("aten::mm", [[4, 4]], [("gemm_a", 5.0)]),
    ("aten::relu", [[8]], [("void relu<4>(int)", 3.0)]),
    ("aten::gone", [[8]], [("gone", 7.0)]),
    ("aten::gone", [[9]], [("gone", 1.0)]),
    ("aten::view", [[8]], []),
    (HOSTILE, [[8]], [(HOSTILE, 1.0)]),
]
NEW: list[Call] = [
    ("aten::mm", [[8, 16]], [("gemm_b", 10.0)]),
    ("aten::mm", [[8, 16]], [("gemm_b", 11.0)]),
    ("aten::mm", [[8, 16]], []),
    ("aten::mm", [[4, 4]], [("gemm_a", 4.0)]),
    ("aten::relu", [[8]], [("void relu<8>(int)", 1.0)]),
    ("aten::fresh", [[8]], []),
    ("aten::view", [[8]], []),
    (HOSTILE, [[8]], [(HOSTILE, 2.0)]),
]


def graph_of(calls: list[Call], **more: Any) -> Any:
    """Calls one after another, each two ops deep below the op it is about; the innermost launches the kernels."""
    events, at, correlation = [], 0.0, 0
    for name, dims, kernels in calls:
        events += [
            span("cpu_op", "outer", at, 90.0),
            span("cpu_op", "middle", at + 1, 80.0),
            span("cpu_op", name, at + 2, 70.0, Input_Dims=dims),
        ]
        for place, (kernel, dur) in enumerate(kernels):
            correlation += 1
            events.append(span("cuda_runtime", "cudaLaunchKernel", at + 3 + place, 0.5, correlation=correlation))
            where = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
            events.append(span("kernel", kernel, at + 10 + 30 * place, dur, **where, correlation=correlation))
        at += 100
    return load_core({"traceEvents": events, **more})


@cache
def two() -> tuple[Placed, Placed]:
    return (
        Placed(graph_of(OLD), "across", "old", ("commit=b1", "size=10", "empty=")),
        Placed(graph_of(NEW), "across", "new", ("commit=a2", "size=9", "size=99")),
    )


def marked(path: Path) -> Any:
    """A trace under an id of its own: a trace stands once in a database, and others place it elsewhere."""
    text = path.read_bytes()
    return load_core({**json.loads(gzip.decompress(text) if path.suffix == ".gz" else text), "placed by": "across"})


@cache
def pair_of(model: str) -> tuple[Placed, Placed]:
    assert CORPUS
    h100, mi300 = (marked(CORPUS / "tracelens" / device / f"{model}.json.gz") for device in ("h100", "mi300"))
    run = f"across {model}"
    return Placed(h100, run, "h100", ("device=h100",)), Placed(mi300, run, "mi300", ("device=mi300",))


@cache
def dlrm() -> tuple[Placed, ...]:
    assert CORPUS
    folder = CORPUS / "dlrm-8-ranks" / "kineto"
    return tuple(Placed(marked(folder / f"rank{n}.json.gz"), "across dlrm", f"rank{n}") for n in range(8))


@cache
def simulated() -> tuple[tuple[Placed, ...], dict[str, Any]]:
    """Two ranks, of which the second waits for its data; and the truth."""
    run = simulate(steps=2, layers=1, seed=11, problem="late_rank")
    placed = tuple(Placed(load_core(one.trace), "across simulated", f"rank{one.rank}") for one in run.ranks)
    return placed, run.ranks[0].truth


def ranks_of(*starts: tuple[float, float], epoch_ns: tuple[int, ...] = (), run: str = "across ranks") -> list[Placed]:
    """Ranks that take part in one collective each: its start and duration, in us."""
    placed = []
    for rank, (start, dur) in enumerate(starts):
        collective = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Seq": 7, "dtype": "Float"}
        kernel = span("kernel", "ncclDevKernel_AllReduce", start, dur, 0, 7, device=0, stream=7, **collective)
        first = span("cpu_op", "aten::empty", 0.0, 1.0)
        base = epoch_ns[rank] if epoch_ns else 0
        trace = {
            "traceEvents": [first, kernel],
            "baseTimeNanoseconds": base,
            "distributedInfo": {"rank": rank},
        }
        placed.append(Placed(load_core(trace), run, f"rank{rank}"))
    return placed


# --- two traces -------------------------------------------------------------------------------------------------


def test_common_signatures_count_calls_and_charged_time() -> None:
    rows = {(row["name"], row["input_dims"]): row for row in QUESTIONS["common_signatures"](two()).records()}
    assert list(rows) == [
        ("aten::mm", "[[8,16]]"),
        ("aten::relu", "[[8]]"),
        *sorted([("aten::mm", "[[4,4]]"), (HOSTILE, "[[8]]")]),
    ]
    mm = rows["aten::mm", "[[8,16]]"]
    assert (mm["count_a"], mm["count_b"]) == (2, 3)
    assert (mm["gpu_time_a_us"], mm["gpu_time_b_us"], mm["difference_us"]) == (32.0, 21.0, -11.0)
    assert mm["ratio"] == 21 / 32
    assert mm["input_strides"] is None


def test_the_ratio_is_absent_where_the_first_has_no_gpu_time() -> None:
    old, new = two()
    no_work = Placed(graph_of([("aten::relu", [[8]], [])]), "across", "idle")
    (row,) = QUESTIONS["common_signatures"]([no_work, old]).records()
    assert (row["name"], row["ratio"], row["gpu_time_b_us"]) == ("aten::relu", None, 3.0)
    (row,) = QUESTIONS["common_signatures"]([new, no_work]).records()
    assert (row["ratio"], row["difference_us"]) == (0.0, -1.0)


def test_other_kernels_cost_what_the_calls_of_b_take_longer() -> None:
    mm, relu = QUESTIONS["kernel_choices"](two()).records()
    assert (mm["name"], mm["kernels_a"], mm["kernels_b"]) == ("aten::mm", ["gemm_a", "reduce_a"], ["gemm_b"])
    assert (mm["count_a"], mm["count_b"], mm["call_time_a_us"], mm["call_time_b_us"]) == (2, 3, 16.0, 7.0)
    assert mm["cost_us"] == -27.0
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
    more = Placed(graph_of(OLD, extra=1), "other run", "old")
    both, compare = [old, new, more], QUESTIONS["ops_only_in_one"]
    assert set(compare(both)["only_in"]) == {"across/new", "other run/old"}
    assert set(compare(both, b="new")["only_in"]) == {"across/old", "across/new"}
    assert set(compare(both, a="new", b=old.core.trace_id)["only_in"]) == {"across/old", "across/new"}
    assert len(compare(both, a="across/old")) == 0


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"a": "nobody"}, "no trace is called 'nobody' among: across/old"),
        ({"b": "across/old"}, "no trace was pushed before across/old"),
        ({"a": "across/new", "b": "new"}, "across/new is compared with itself"),
    ],
)
def test_traces_that_are_not_there(named: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        QUESTIONS["common_signatures"](two(), **named)


def test_a_name_of_several_is_none() -> None:
    again = Placed(graph_of(OLD, extra=1), "other run", "old")
    with pytest.raises(AnalysisError, match="old is the name of several traces: across/old, other run/old"):
        QUESTIONS["kernel_choices"]([*two(), again], a="old")
    with pytest.raises(AnalysisError, match="there are no traces"):
        QUESTIONS["kernel_choices"]([])


@given(traces(), traces())
@pytest.mark.filterwarnings("ignore::tracelens_graph.errors.DamagedTraceWarning")
def test_comparing_the_other_way_round_turns_the_differences(one: dict[str, Any], other: dict[str, Any]) -> None:
    a, b = Placed(load_core(one), "made", "a"), Placed(load_core(other), "made", "b")
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
    same = [Placed(load_core(trace), "made", "a"), Placed(load_core(trace), "made", "b")]
    table = QUESTIONS["common_signatures"](same, a="made/a", b="made/b", top=10**6)
    c, gpu = same[0].core.columns, same[0].core.gpu_rows
    charged = int(c.dur_ns[gpu[c.owner[gpu] >= 0]].sum())
    assert round(sum(table["gpu_time_a_us"]) * 1000) == charged
    assert not any(table["difference_us"])
    assert len(QUESTIONS["kernel_choices"](same)) == len(QUESTIONS["ops_only_in_one"](same)) == 0


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
    placed = [Placed(core, "r", str(n), (f"k={value}",)) for n, value in enumerate(values)]
    assert QUESTIONS["run_history"](placed, label="k")["label_value"] == ["-3", "2.5", "10", "", "1e1", "v2"]


def test_a_trace_without_gpu_work_takes_no_time() -> None:
    idle = Placed(graph_of([("aten::view", [[8]], [])]), "across", "idle")
    first, second = QUESTIONS["run_history"]([idle, two()[0]]).records()
    assert (first["gpu_total_ms"], first["gpu_busy_ms"], first["idle_percent"]) == (0.0, 0.0, None)
    assert second["total_change_percent"] is None


# --- ranks ------------------------------------------------------------------------------------------------------


def test_the_spread_of_a_collective() -> None:
    (row,) = QUESTIONS["collective_spread"](ranks_of((10.0, 30.0), (25.0, 15.5), (12.0, 28.0))).records()
    assert (row["kind"], row["group"], row["sequence"], row["ranks"]) == ("allreduce", "0", 7, 3)
    assert (row["first_start_us"], row["last_start_us"], row["start_skew_us"]) == (10.0, 25.0, 15.0)
    assert (row["end_skew_us"], row["wait_us"]) == (0.5, 15.0 + 13.0)
    assert (row["shortest_us"], row["longest_us"], row["duration_spread_us"]) == (15.5, 30.0, 14.5)
    assert (row["last_trace"], row["last_rank"]) == ("rank1", 1)


def test_absolute_starts_put_ranks_on_one_clock() -> None:
    later = ranks_of((10.0, 30.0), (10.0, 30.0), epoch_ns=(1_700_000_000_000_000_000, 1_700_000_000_000_004_000))
    (row,) = QUESTIONS["collective_spread"](later).records()
    assert (row["start_skew_us"], row["end_skew_us"], row["last_rank"]) == (4.0, 4.0, 1)


def test_of_equally_late_ranks_the_smallest_is_named_and_all_are_counted() -> None:
    ranks = ranks_of((10.0, 30.0), (25.0, 15.0), (25.0, 15.0))
    assert QUESTIONS["collective_spread"](ranks)["last_rank"] == [1]
    table = QUESTIONS["slowest_ranks"](ranks)
    assert list(table.rows()) == [
        ("rank1", 1, 1, 1, 0, 0.0, 0.0, 15.0),
        ("rank2", 2, 1, 1, 0, 0.0, 0.0, 15.0),
        ("rank0", 0, 1, 0, 1, 15.0, 15.0, 30.0),
    ]


def test_one_rank_alone_meets_nobody() -> None:
    alone = ranks_of((10.0, 30.0))
    assert len(QUESTIONS["collective_spread"](alone)) == len(QUESTIONS["slowest_ranks"](alone)) == 0
    both = [*ranks_of((10.0, 30.0), (11.0, 30.0)), *ranks_of((10.0, 30.0), run="another")]
    assert len(QUESTIONS["collective_spread"](both)) == 0  # the run pushed last
    assert len(QUESTIONS["collective_spread"](both, run="across ranks")) == 1
    assert len(QUESTIONS["collective_spread"](both, run="across ranks", kind="broadcast")) == 0
    with pytest.raises(AnalysisError, match="no run is called 'nothing'; there are across ranks, another"):
        QUESTIONS["slowest_ranks"](both, run="nothing")


def test_collectives_are_as_they_were_simulated() -> None:
    placed, truth = simulated()
    rows = {row["sequence"]: row for row in QUESTIONS["collective_spread"](placed, top=1000).records()}
    assert set(rows) == {one["seq"] for one in truth["collectives"]}
    for one in truth["collectives"]:
        row = rows[one["seq"]]
        assert (row["kind"], row["last_rank"]) == (one["kind"], one["last_rank"])
        assert round(row["start_skew_us"] * 1000) == one["skew_ns"]
        assert round(row["shortest_us"] * 1000) == one["transfer_ns"]
        assert row["end_skew_us"] == 0.0
    assert QUESTIONS["slowest_ranks"](placed)["rank"][0] == 1


@needs_corpus
def test_eight_real_ranks_end_together() -> None:
    rows = QUESTIONS["collective_spread"](dlrm()).records()
    assert [row["ranks"] for row in rows] == [8] * 8
    assert sorted(row["kind"] for row in rows) == ["all_to_all"] * 5 + ["allreduce"] * 3
    assert all(1.0 <= row["end_skew_us"] <= 7.0 for row in rows)
    assert rows[0]["start_skew_us"] == max(row["start_skew_us"] for row in rows) == 7624.0
    late = QUESTIONS["slowest_ranks"](dlrm()).records()[0]
    assert (late["rank"], late["times_last"], late["times_first"]) == (7, 5, 0)


def test_made_up_ranks_are_as_in_the_reference_tables(goldens: Path) -> None:
    folder = goldens / "multirank-synthetic4"
    placed = [Placed(marked(folder / "synthetic4" / f"rank{n}_trace.json"), "four", f"rank{n}") for n in range(4)]
    rows = {}
    for row in QUESTIONS["collective_spread"](placed, top=1000).records():
        _, group, _, place = row["collective"].split(":")
        rows[f"{group}_{place.removeprefix('#')}"] = row
    reference = _csv(folder / "synthetic4_report" / "nccl_implicit_sync.csv")
    assert len(reference) == 36
    for wanted in reference:
        row = rows[wanted["collective_id"]]
        assert row["kind"] == wanted["Collective name"]
        assert row["shortest_us"] == pytest.approx(float(wanted["comm_latency"]))
        assert row["start_skew_us"] == pytest.approx(float(wanted["skew in start time"]))
        assert row["end_skew_us"] == pytest.approx(float(wanted["skew in end time"]))
        assert row["wait_us"] / 4 == pytest.approx(float(wanted["avg_wait_time"]))
    kinds = sorted({wanted["Collective name"] for wanted in reference})
    by_kind = [QUESTIONS["slowest_ranks"](placed, kind=kind).records() for kind in kinds]
    for wanted in _csv(folder / "synthetic4_report" / "straggler_summary.csv"):
        mine = [row for rows in by_kind for row in rows if row["rank"] == int(wanted["rank"])]
        assert sum(row["times_last"] for row in mine) == int(wanted["times_arrived_last"])
        assert sum(row["times_first"] for row in mine) == int(wanted["times_arrived_first"])
        assert sum(row["wait_us"] for row in mine) == pytest.approx(float(wanted["total_wait_time_us"]), abs=0.06)


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


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


@pytest.mark.parametrize("name", ["collective_spread", "slowest_ranks"])
def test_the_database_sees_the_same_ranks(ask: Ask, name: str) -> None:
    placed, _ = simulated()
    assert_same(*ask(placed, name, run=placed[0].run))
    by_hand = ranks_of((10.0, 30.0), (25.0, 15.5), (25.0, 28.0))
    for kind in (None, "allreduce", "broadcast"):
        assert_same(*ask(by_hand, name, run=by_hand[0].run, kind=kind))


@needs_corpus
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("run_history", {}),
        ("collective_spread", {}),
        ("collective_spread", {"kind": "allreduce", "top": 2}),
        ("slowest_ranks", {}),
        ("slowest_ranks", {"kind": "all_to_all"}),
    ],
)
def test_the_database_sees_the_same_eight_ranks(ask: Ask, name: str, parameters: dict[str, Any]) -> None:
    query, twin = ask(dlrm(), name, run="across dlrm", **parameters)
    assert_same(query, twin)
    assert len(twin) > 0
