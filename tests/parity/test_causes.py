"""Why our tables depart from TraceLens's: each cause shown on the traces themselves."""

from __future__ import annotations

from decimal import Decimal

import pytest
from parity.cases import Case, cases, graph, path_of, read
from parity.comparing import parsed
from parity.departures import departures, more_linked

from corpus import NO_GOLDENS, needs_goldens
from tracelens_graph.analyses.launchers import NO_LAUNCH
from tracelens_graph.loading import load_core
from tracelens_graph.schema import Kind


def departing(test: str) -> list[object]:
    """The cases in which a departure with this cause occurs."""
    names = {trace for departure in departures() if departure.test == test for trace in departure.traces}
    return [pytest.param(case, id=str(case)) for case in cases() if str(case) in names] or [
        pytest.param(None, id="no-reference", marks=pytest.mark.skip(reason=NO_GOLDENS))
    ]


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


@pytest.mark.parametrize("case", departing("test_half_a_hundredth_is_exact"))
def test_half_a_hundredth_is_exact(case: Case) -> None:
    (departure,) = [d for d in departures() if d.test == "test_half_a_hundredth_is_exact"]
    (theirs,) = [row for row in case.reference["ops_unique_args"] if departure.covers(row, {})]
    (kernel,) = parsed(theirs["kernel_details_summary"])
    core = graph(case.trace)
    first = core.node(int(theirs["ex_UID"]))
    calls = [call for call in core.find(name=first.name, tid=first.tid) if call.shapes == first.shapes]
    durations = [Decimal(repr(event.event["dur"])) for call in calls for event in call.kernels]
    assert len(durations) == kernel["count"] == 4
    exact = sum(durations) / 4
    assert kernel["mean_duration_us"] < exact == Decimal("4.115")
    assert parsed(theirs["trunc_kernel_details"])[0]["mean_duration_us"] == 4.11
    assert float(round(exact, 2)) == 4.12


@needs_goldens
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
