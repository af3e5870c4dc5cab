"""Why our tables depart from TraceLens's: each cause shown on the traces themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest
from call_trees import FORWARD, Call, launch, op
from call_trees import load as load_calls
from parity.cases import Case, Eval, cases, compared, evals, graph, parameters, path_of, read
from parity.comparing import Row, parsed
from parity.departures import departures, more_linked

from corpus import needs_corpus, needs_goldens
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.ops.ops import OPS_SUMMARY, ops_unique_args
from tracelens_graph.analyses.performance.perf_sheets import perf_sheets
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.unified import arguments_of, context_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.op_table.pseudo import PARTS
from tracelens_graph.perf.registry import model_named, sheets
from tracelens_graph.schema import FIRST_MADE_UID, Flag, Kind


def departing(test: str) -> list[object]:
    """The cases in which a departure with this cause occurs."""
    patterns = {trace for departure in departures() if departure.test == test for trace in departure.traces}
    return parameters(case for case in cases() if any(fnmatchcase(str(case), one) for one in patterns))


def departed(case: Case, test: str) -> Iterator[tuple[str, Row, Row]]:
    """Table and rows of both sides that depart with this cause."""
    known = [departure for departure in departures() if departure.test == test and departure.of(str(case))]
    for comparison in compared(case):
        for pair, column in dict.fromkeys(
            (difference.pair, difference.column) for difference in comparison.differences
        ):
            rows = comparison.pairs[pair]
            if any(
                comparison.table in one.tables and column.removesuffix("_first") in one.columns and one.covers(*rows)
                for one in known
                if pair >= 0
            ):
                yield comparison.table, *rows


@pytest.mark.parametrize("case", departing("test_whole_of_percentages_is_the_time_of_all_gpu_events"))
def test_whole_of_percentages_is_the_time_of_all_gpu_events(case: Case) -> None:
    core = graph(case.trace)
    c, rows = core.columns, core.gpu_rows
    linked = rows[c.parent[rows] >= 0]
    theirs, ours = case.reference["kernel_summary"], case.tables()["kernel_summary"].records()
    assert len(theirs) == len(ours)
    for table, events in ((theirs, linked), (ours, rows)):
        total_us = (c.end_ns[events].max() - c.start_ns[events].min()) / 1000
        for row in table:
            percent = 100 * float(row["Kernel duration (µs)_sum"]) / total_us
            assert float(row["Percent of total time (%)"]) == pytest.approx(percent, rel=1e-6)


@pytest.mark.parametrize("case", departing("test_rows_with_a_name_of_their_own_are_kernels_without_a_launch"))
def test_rows_with_a_name_of_their_own_are_kernels_without_a_launch(case: Case) -> None:
    core = graph(case.trace)
    c, rows = core.columns, core.gpu_rows
    kernels = rows[(c.kind[rows] == Kind.Kernel) & (c.parent[rows] < 0)]
    count = "Kernel duration (µs)_count"
    theirs = [row for row in case.reference["kernel_summary"] if row["Parent cpu_op"] == ""]
    ours = [row for row in case.tables()["kernel_summary"].records() if row["Parent cpu_op"] == NO_LAUNCH]
    assert sum(int(row[count]) for row in theirs) == sum(row[count] for row in ours) == len(kernels) > 0


@pytest.mark.parametrize("case", departing("test_short_kernels_are_all_there"))
def test_short_kernels_are_all_there(case: Case) -> None:
    """TraceLens's own histogram counts as many as we list, and its list is short of those with an empty key."""
    counted = sum(int(row["count"]) for row in case.reference["short_kernel_histogram"])
    theirs = case.reference["short_kernels_summary"]
    ours = case.tables()["short_kernels_summary"].records()
    keys = ("Parent cpu_op", "Input dims", "Input strides", "Concrete Inputs", "Kernel name")
    listed = [row for row in ours if all(row[key] is not None for key in keys)]
    assert all(row[key] != "" for row in theirs for key in keys)
    assert sum(row["Short Kernel count"] for row in ours) == counted
    assert sum(int(row["Short Kernel count"]) for row in theirs) == sum(row["Short Kernel count"] for row in listed)
    assert len(listed) < len(ours)


@pytest.mark.parametrize("case", parameters(evals("tracelens-evals")))
def test_durations_are_whole_nanoseconds(case: Eval) -> None:
    """Where a file has digits below, our times are theirs rounded, event by event; what the file says is kept."""
    core = case.graph
    departs = any(departure.test == "test_durations_are_whole_nanoseconds" and departure.of(str(case))
                  for departure in departures())  # fmt: skip
    recorded = [(node.event["dur"], node.dur_ns) for node in core.find(Kind.Op)]
    assert any(abs(dur - round(dur, 3)) > 1e-6 for dur, _ in recorded) == departs
    assert [ns for _, ns in recorded] == [round(dur * 1000) for dur, _ in recorded]


# --- causes that the traces here do not show, on traces made by hand ---------------------------------------------


def moved(name: str, dims: list[list[int]], types: list[str], **more: Any) -> int:
    """Bytes that a call in a trace moves, as the table says."""
    arguments = {"Input Dims": dims, "Input type": types, **more}
    launched = Call("cudaLaunchKernel", "cuda_runtime", kernel="k")
    (row,) = unified_perf_summary(load_calls({FORWARD: [Call(name, calls=[launched], args=arguments)]})).records()
    return round(row["Data Moved (MB)"] * 2**20)


def test_in_place_the_type_of_the_first_operand_stays() -> None:
    types = ["c10::BFloat16", "float", "Scalar"]
    theirs = 64 * (2 + 4 + max(2, 4))
    assert moved("aten::add_", [[8, 8], [8, 8], []], types) == 64 * (2 + 4 + 2) != theirs
    assert moved("aten::add", [[8, 8], [8, 8], []], types) == theirs


def test_a_tensor_without_dimensions_promotes_nothing() -> None:
    theirs = 4 + 64 * 2 + 64 * 4
    assert moved("aten::mul", [[], [8, 8]], ["float", "c10::BFloat16"]) == 4 + 64 * 2 + 64 * 2 != theirs


def test_integers_are_added_up_in_64_bits() -> None:
    dims, values, theirs = [[8, 8], [], []], {"Concrete Inputs": ["", "1", ""]}, 64 * (4 + 4)
    assert moved("aten::cumsum", dims, ["int", "Scalar", ""], **values) == 64 * (4 + 8)
    assert moved("aten::cumsum", dims, ["float", "Scalar", ""], **values) == theirs


def test_compiled_kernels_move_their_arguments() -> None:
    dims, values, theirs = [[8, 8], [8, 8], []], {"Concrete Inputs": ["", "", "64"]}, 3 * 64 * 2
    halves, floats = (["c10::BFloat16"] * 2 + ["Scalar"], ["float"] * 2 + ["Scalar"])
    assert moved("triton_poi_fused_relu_0", dims, halves, **values) == 2 * 64 * 2
    assert moved("triton_poi_fused_add_0", dims, halves, **values) == theirs  # in place
    assert moved("triton_poi_fused_relu_0", dims, floats, **values) == 2 * 64 * 4


def test_slices_move_what_is_stored() -> None:
    dims, types = [[4, 8], [4, 8]], ["float", "float"]
    theirs = 2 * 32 * 4
    assert moved("aten::copy_", dims, types, **{"Input Strides": [[8, 1], [0, 1]]}) == (32 + 8) * 4 != theirs
    assert moved("aten::copy_", dims, types, **{"Input Strides": [[8, 1], [32, 2]]}) == theirs


def test_one_name_for_norms_and_for_counts() -> None:
    assert {"Normalization"} == {name for name in sheets() if name.startswith("Normalization")}
    assert "Count" in OPS_SUMMARY
    assert not any("subtree" in name and name.endswith("_count") for name in OPS_SUMMARY)


@needs_goldens
def test_without_shapes_rows_stay_and_costs_are_empty() -> None:
    core = load_calls({FORWARD: [op("aten::mm", launch()), op("aten::mm", launch()), op("aten::relu", launch())]})
    rows = unified_perf_summary(core).records()
    assert {(row["name"], row["operation_count"]) for row in rows} == {("aten::mm", 2), ("aten::relu", 1)}
    assert {(row["has_perf_model"], row["GFLOPS"], row["Data Moved (MB)"]) for row in rows} == {(False, None, None)}
    assert not perf_sheets(core)


def test_beside_a_call_that_runs_alone_there_is_an_empty_list() -> None:
    (row,) = ops_unique_args(load_calls({FORWARD: [op("aten::mm", launch())]}), overlapping=True).records()
    assert row["overlapping_kernel_names"] == row["overlapping_kernels_details_summary"] == []
    assert row["overlap_pct_mean"] == 0


@pytest.mark.parametrize("case", departing("test_calls_of_a_replay_are_those_of_its_capture"))
def test_calls_of_a_replay_are_those_of_its_capture(case: Case) -> None:
    """They are nodes without host time below the launch, and above them stands a part of what TraceLens names."""
    core = graph(case.trace)
    c = core.columns
    launches = {float(c.dur_ns[row]) / 1e3 for row in np.unique(c.parent[c.uid >= FIRST_MADE_UID]) if row >= 0}
    for table, theirs, ours in departed(case, "test_calls_of_a_replay_are_those_of_its_capture"):
        uid = ours.get("ex_UID", ours.get("UID_first"))
        row = core.row(uid)
        assert uid >= FIRST_MADE_UID
        assert (c.dur_ns[row], c.flags[row] & Flag.captured) == (0, Flag.captured)
        if table == "unified_perf_summary":
            assert ours["total_duration_us"] == 0
            assert ours["name"] in PARTS or float(theirs["mean_duration_us"]) in launches
            if case.flavour == "inference-capture":
                assert set(flattened(ours["call_stack_full"])) <= set(flattened(parsed(theirs["call_stack_full"])))


def flattened(stack: Any) -> list[str]:
    return [name for one in stack for name in (flattened(one) if isinstance(one, list | tuple) else [one])]


@pytest.mark.parametrize("case", departing("test_details_of_kernels_have_a_call_stack_too_many"))
def test_details_of_kernels_have_a_call_stack_too_many(case: Case) -> None:
    rows = list(departed(case, "test_details_of_kernels_have_a_call_stack_too_many"))
    assert rows
    for _, theirs, ours in rows:
        for kernel, other in zip(parsed(theirs["kernel_details_summary"]), ours["kernel_details_summary"], strict=True):
            assert kernel.keys() - other.keys() == {"call_stack"}
            assert kernel["name"] == other["name"]


@pytest.mark.parametrize("case", departing("test_kernels_far_below_an_op_are_its_own"))
def test_kernels_far_below_an_op_are_its_own(case: Case) -> None:
    """Rows that only one side has are of the same kernels."""
    rows = list(departed(case, "test_kernels_far_below_an_op_are_its_own"))
    times = [
        sum(float(row["Kernel Time (µs)_sum"]) for row in side if row)
        for side in zip(*((theirs, ours) for _, theirs, ours in rows), strict=True)
    ]
    assert times[0] == pytest.approx(times[1], abs=0.001 * 168)


@pytest.mark.parametrize("case", departing("test_copies_in_a_copy_count_once"))
def test_copies_in_a_copy_count_once(case: Case) -> None:
    core = graph(case.trace)
    inner = [call for call in core.find(Kind.Op, "aten::copy_") if call.parent and call.parent.name == call.name]
    assert [len(call.kernels) for call in inner] == [1, 0]
    assert {row["UID_first"] for row in case.tables()["UnaryElementwise"].records()}.isdisjoint(
        call.uid for call in inner
    )


@needs_corpus
@pytest.mark.parametrize("trace", sorted(more_linked()))
def test_ids_link_what_arrows_do_not(trace: str) -> None:
    """The events are launched by calls of the same id, which begin before them, and no arrow starts there."""
    whole, arrows_only = load_core(path_of(trace)), graph(trace)
    linked, by_arrow = (
        set(core.columns.uid[core.gpu_rows[core.columns.parent[core.gpu_rows] >= 0]].tolist())
        for core in (whole, arrows_only)
    )
    assert by_arrow < linked
    assert len(linked - by_arrow) == more_linked()[trace].events
    events = read(path_of(trace))["traceEvents"]
    arrows = {event["id"] for event in events if event.get("cat") == "ac2g" and event["ph"] == "s"}
    for uid in linked - by_arrow:
        event = whole.node(uid)
        call = event.parent
        assert call is not None
        assert call.kind == Kind.RuntimeCall
        assert call.args["correlation"] == event.args["correlation"]
        assert event.args["correlation"] not in arrows
        assert call.start_ns <= event.start_ns


@pytest.mark.parametrize("case", parameters(case for case in cases() if not case.trace.startswith("inference/")))
def test_rates_follow_from_work_and_time(case: Case) -> None:
    """What a departure in work implies is not listed, so it is computed here again, for all rows."""
    for name, table in case.tables().items():
        for row in table.records() if "Compute Spec" in table.columns else ():
            figures = {key.removesuffix("_first"): value for key, value in row.items()}
            flops, moved = figures["GFLOPS"], figures["Data Moved (MB)"]
            work = {"TFLOPS/s": flops and flops / 1e3, "TB/s": moved and moved * 2**20 / 1e12}
            if flops is not None and moved:
                assert figures["FLOPS/Byte"] == pytest.approx(flops * 1e9 / (moved * 2**20))
            least, most = (row[f"Kernel Time (µs)_{which}"] for which in ("min", "max"))
            if roof := figures.get("Roofline Time (µs)"):
                work["Pct Roofline"] = roof * 1e-4
            for rate, amount in work.items():
                found = [row[f"{rate}_{which}"] for which in ("min", "mean", "median", "max")]
                if amount is not None and least > 0:
                    slow, mean, median, fast = found
                    assert (slow, fast) == pytest.approx((amount / most * 1e6, amount / least * 1e6)), (name, row)
                    assert slow * (1 - 1e-12) <= min(mean, median) <= max(mean, median) <= fast * (1 + 1e-12)


@pytest.mark.parametrize("case", departing("test_further_models_fill_what_is_empty"))
def test_further_models_fill_what_is_empty(case: Case) -> None:
    """Figures are those that the model has of the call, and TraceLens has neither figures nor a row in their place."""
    core = graph(case.trace)
    c = core.columns
    for table, theirs, ours in departed(case, "test_further_models_fill_what_is_empty"):
        figures = {key.removesuffix("_first"): value for key, value in ours.items()}
        model = model_named(ours["name"])
        assert model is not None
        assert not model.claims or ours["name"] in PARTS
        if table == "unified_perf_summary":
            assert theirs["has_perf_model"] == "False"
            assert {theirs[column] for column in ("GFLOPS", "Data Moved (MB)", "Compute Spec", "perf_params")} == {""}
        else:
            assert not theirs
            assert model.sheet == table
        (row,) = np.flatnonzero(c.uid == figures["ex_UID" if theirs else "UID"]).tolist()
        cost = model.estimate(arguments_of(core, row), context_of(core, row, model))
        assert (figures["GFLOPS"], figures["Data Moved (MB)"]) == (cost.flops / 1e9, cost.bytes / 2**20)
        assert figures["Compute Spec"] == cost.compute_spec


@pytest.mark.parametrize("case", departing("test_truth_values_are_bytes"))
def test_truth_values_are_bytes(case: Case) -> None:
    rows = list(departed(case, "test_truth_values_are_bytes"))
    assert len({table for table, _, _ in rows}) == 2
    for _, theirs, ours in rows:
        figures = {key.removesuffix("_first"): value for key, value in ours.items()}
        assert figures["Data Moved (MB)"] * 2**20 == 2 * np.prod(figures["Input Dims"][0])
        assert theirs["FLOPS/Byte_first" if "FLOPS/Byte_first" in theirs else "FLOPS/Byte"] == ""


@pytest.mark.parametrize("case", departing("test_rows_are_those_of_two_of_ours"))
def test_rows_are_those_of_two_of_ours(case: Case) -> None:
    ours = case.tables()["Normalization"].records()
    rows = [theirs for _, theirs, mine in departed(case, "test_rows_are_those_of_two_of_ours") if theirs]
    assert len(rows) == 8
    for theirs in rows:
        shape = parsed(theirs["param: op_shape"])
        both = [row for row in ours if row["name"] == theirs["name"] and list(row["param: op_shape"]) == shape]
        assert sorted(row["param: is_affine"] for row in both) == [False, True]
        assert sum(row["name_count"] for row in both) == int(theirs["name_count"])
        total = sum(row["Kernel Time (µs)_sum"] for row in both)
        assert total == pytest.approx(float(theirs["Kernel Time (µs)_sum"]), abs=0.05)


@pytest.mark.parametrize("case", departing("test_calls_on_the_host_have_no_gpu_time"))
def test_calls_on_the_host_have_no_gpu_time(case: Case) -> None:
    core = graph(case.trace)
    pairs = list(departed(case, "test_calls_on_the_host_have_no_gpu_time"))
    assert pairs
    for theirs in (theirs for _, theirs, _ in pairs if theirs):
        first = core.node(int(theirs["UID_first"]))
        recorded = ("Input Dims", "Input type", "Input Strides")
        calls = [
            call for call in core.find(name=first.name) if all(call.args[one] == first.args[one] for one in recorded)
        ]
        own = [
            ours["name_count"] for _, _, ours in pairs if ours and ours["Input Dims_first"] == first.args["Input Dims"]
        ]
        with_work = [call for call in calls if call.kernels]
        assert first not in with_work
        assert len(with_work) == sum(own) < int(theirs["name_count"]) <= len(calls)


@pytest.mark.parametrize("case", departing("test_events_that_stand_for_themselves_have_their_own_uid"))
def test_events_that_stand_for_themselves_have_their_own_uid(case: Case) -> None:
    core = graph(case.trace)
    rows = list(departed(case, "test_events_that_stand_for_themselves_have_their_own_uid"))
    assert rows
    for _, theirs, ours in rows:
        event = core.node(ours["ex_UID"])
        assert ours["name"] == f"{theirs['name'].partition('->')[0]}->{event.name} (Synthetic Op)"
        assert int(theirs["ex_UID"]) >= core.info.events


def cut(name: str) -> str:
    """A name as TraceLens spells it in call stacks."""
    return re.sub(r"_\d+", "", name)


def cut_stack(stack: list[Any]) -> list[Any]:
    """A call stack as TraceLens spells it; the names of kernels, which each way ends with, are whole."""
    if isinstance(stack[-1], str):
        return [*map(cut, stack[:-1]), stack[-1]]
    return [cut_stack(part) if isinstance(part, list) else cut(part) for part in stack]


@pytest.mark.parametrize("case", departing("test_frames_that_end_together_are_nested"))
def test_frames_that_end_together_are_nested(case: Case) -> None:
    """A frame is lost if its end, in float64, lies behind that of a frame around it; exactly it never does.

    So is one whose file is named without a folder.
    """
    core = graph(case.trace)
    rows = list(departed(case, "test_frames_that_end_together_are_nested"))
    assert rows
    for _, theirs, ours in rows:
        node = core.node(ours["ex_UID"])
        chain = []
        while node is not None:
            chain.append(node)
            node = node.parent
        kept, shown, reach, exact = [], 0, float("inf"), Decimal("inf")
        for node in reversed(chain):
            start, duration = node.event["ts"], node.event["dur"]
            end = start + duration
            assert Decimal(repr(start)) + Decimal(repr(duration)) <= exact
            exact = Decimal(repr(start)) + Decimal(repr(duration))
            visible = node.kind in (Kind.Op, Kind.Module) or ".py(" in node.name
            shown += visible
            if visible and end <= reach and ("/" in node.name or node.kind == Kind.Op or node.kind == Kind.Module):
                kept.append(node.name)
            reach = min(reach, end)
        assert parsed(theirs["call_stack_full"]) == cut_stack(kept + ours["call_stack_full"][shown:])


@pytest.mark.parametrize("case", departing("test_names_of_functions_are_whole"))
def test_names_of_functions_are_whole(case: Case) -> None:
    core = graph(case.trace)
    rows = list(departed(case, "test_names_of_functions_are_whole"))
    assert rows
    for _, theirs, ours in rows:
        node = core.node(ours["ex_UID"])
        while node is not None and node.name != ours["entry_point"]:
            node = node.parent
        assert node is not None
        assert theirs["entry_point"] == cut(node.name) != node.name
