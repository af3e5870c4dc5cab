"""Jobs as a whole: simulated ones whose truth is known, reasons by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_jobs import simulated_job

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
from tracelens_graph.analyses.ranks.parts import BARRIERS
from tracelens_graph.analyses.stragglers.reasons import UNNAMED
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import Run, simulate

LATE = {"ranks": 4, "steps": 3, "layers": 1, "dataloader_rank": 2, "dataloader_us": 12_000.0}


@pytest.mark.parametrize(
    "settings",
    [
        LATE,
        {**LATE, "nodes": 2, "clock_offset_us": 20_000.0, "end_noise_us": 5.0},
        {**LATE, "tensor_parallel": 2},
    ],
    ids=["one host", "two hosts", "groups"],
)
@pytest.mark.parametrize("step", [3, 4, 5])
def test_reasons_of_a_step_are_those_of_the_whole_recording(settings: dict[str, Any], step: int) -> None:
    traces = simulated_job(**settings).traces
    whole = Job(traces, whole=traces)
    part = Job(traces.narrowed(step=step), whole=traces)
    own = {"collective", "since"}
    wanted = [row for row in whole.table("late_arrivals").records() if row["step"] == step]
    found = part.table("late_arrivals").records()
    assert [row | dict.fromkeys(own) for row in found] == [row | dict.fromkeys(own) for row in wanted]
    assert any(row["reason"] not in UNNAMED for row in found)
    # Numbers are those of the tables of the step.
    key = {row["collective"]: row["key"] for row in part.table("rank_collectives").records()}
    assert all(key[row["collective"]].split("/")[0] == row["key"].split("/")[0] for row in found)
    assert len({row["collective"] for row in found}) == len(found)
    of_step = part.table("late_ranks")
    late = of_step.records()[0]
    of_it = [row for row in found if (row["rank"], row["kind"]) == (late["rank"], late["kind"])]
    assert late["new_ms"] == pytest.approx(sum(row["new_us"] for row in of_it if row["reason"] != "even") / 1e3)
    took_part = [row for row in part.table("rank_collectives").records() if row["kind"] == late["kind"]]
    assert late["times_late"] <= late["collectives"] <= len(took_part)


def test_clocks_of_a_step_are_those_of_the_whole_recording() -> None:
    """Four collectives tell no clocks apart."""
    settings = {**LATE, "nodes": 2, "clock_offset_us": 20_000.0, "end_noise_us": 5.0}
    traces = simulated_job(**settings).traces
    whole, part = Job(traces).matched, Job(traces.narrowed(step=4)).matched
    assert (len(part), part.unmatched) == (4, [])
    assert part.unknown_clocks == 0
    assert np.array_equal(part.clocks.offset_ns, whole.clocks.offset_ns)
    skew = dict(zip(keys(whole), whole.last_start_ns - whole.first_start_ns, strict=True))
    of_step = zip(keys(part), part.last_start_ns - part.first_start_ns, strict=True)
    assert all(skew[key] == value for key, value in of_step)


def keys(matched: MatchedCollectives) -> list[str]:
    return [matched.parts.collective(int(part)).key for part in matched.order[matched.first]]


LOOP: dict[str, Any] = {"program": "loop", "layers": 6, "python_stacks": False}
MIXED = ("_reduce_scatter_base", "barrier", "broadcast", "all_to_all", "all_to_allv", "send")


def simulated(**settings: Any) -> tuple[Run, MatchedCollectives]:
    run = simulate(**{"ranks": 4, "steps": 3, "seed": 5, **settings})
    lost = run.options.missing_ranks
    ranks = TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks if one.rank not in lost})
    return run, MatchedCollectives(ranks)


def truth_of_parts(run: Run, matched: MatchedCollectives) -> list[tuple[dict[str, Any], int] | None]:
    """For each part the collective that it truly is of, and the place of its rank among its members."""
    by_kernel = {}
    for one in run.ranks[0].truth["collectives"]:
        for place, (rank, kernel) in enumerate(zip(one["ranks"], one["kernels"], strict=True)):
            if kernel is not None:
                by_kernel[rank, kernel] = (one, place)
    ranks = [rank.rank for rank in matched.ranks]
    return [
        by_kernel.get((ranks[matched.trace[part]], matched.parts.collective(part).uids[0]))
        for part in range(len(matched.parts))
    ]


def assert_matched(run: Run, matched: MatchedCollectives) -> None:
    """What is one collective, and nothing else, has one number. Those without a common end are not looked at."""
    found: dict[str, list[int]] = {}
    of_number: dict[int, set[str]] = {}
    for part, truth in enumerate(truth_of_parts(run, matched)):
        assert truth is not None
        if truth[0]["is_odd"]:
            continue
        number = int(matched.number[part])
        found.setdefault(truth[0]["key"], []).append(number)
        if number >= 0:
            of_number.setdefault(number, set()).add(truth[0]["key"])
    assert all(len(keys) == 1 for keys in of_number.values())
    assert all(min(numbers) >= 0 and len(set(numbers)) == 1 for numbers in found.values() if len(numbers) > 1)
    assert all(numbers == [-1] for numbers in found.values() if len(numbers) == 1)


@pytest.mark.proof
@pytest.mark.parametrize("args", ["all", "without_sequence", "none"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        LOOP,
        {**LOOP, "step_collectives": MIXED},
        {"ranks": 8, "layers": 2, "tensor_parallel": 2, "steps": 2},
        {"ranks": 4, "layers": 2, "pipeline_parallel": 2, "steps": 2},
        {"ranks": 4, "layers": 1, "expert_parallel": 4, "steps": 2},
    ],
    ids=["data parallel", "loop", "all kinds", "tensor parallel", "pipeline", "experts"],
)
def test_all_is_matched_whatever_was_recorded(settings: dict[str, Any], args: str) -> None:
    if args == "none" and "step_collectives" in settings:  # nothing tells who sends to whom
        settings = {**settings, "step_collectives": MIXED[:-1]}
    run, matched = simulated(**settings, collective_args=args)
    if args == "none" and set(settings) & {"tensor_parallel", "pipeline_parallel", "expert_parallel"}:
        assert notes_on_matching(matched)[0].startswith("the traces do not name process groups: ")
    else:
        assert_matched(run, matched)


@pytest.mark.parametrize(
    ("number", "of_ranks"), [(0, range(4)), (-1, range(4)), (0, [1])], ids=["zero", "minus one", "one rank"]
)
@pytest.mark.parametrize("pipeline_parallel", [1, 2])
def test_all_is_matched_where_sequence_numbers_repeat(number: int, of_ranks: list[int], pipeline_parallel: int) -> None:
    run = simulate(ranks=4, layers=2, steps=3, seed=5, pipeline_parallel=pipeline_parallel)
    changed = 0
    for one in (one for one in run.ranks if one.rank in of_ranks):
        for event in one.trace["traceEvents"]:
            if "Seq" in event.get("args", {}):
                event["args"]["Seq"] = number
                changed += event["cat"] == "kernel"
    matched = MatchedCollectives(TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks}))
    assert_matched(run, matched)
    [note] = [one for one in notes_on_matching(matched) if one.startswith("sequence numbers of ")]
    assert f" {changed:,} of {len(matched.parts):,} parts repeat" in note


@pytest.mark.parametrize("settings", [{"layers": 2}, {**LOOP, "step_collectives": MIXED}], ids=["training", "loop"])
def test_waits_and_transfers_are_exact_on_one_clock(settings: dict[str, Any]) -> None:
    run, matched = simulated(**settings, dataloader_rank=2, dataloader_us=9_000.0)
    for part, truth in enumerate(truth_of_parts(run, matched)):
        assert truth is not None
        one, place = truth
        if not one["is_barrier"]:
            continue
        assert matched.wait_ns[part] == one["wait_ns"][place]
        assert matched.transfer_ns[part] == one["transfers_ns"][place]
        assert matched.end_skew_ns[part] == one["end_noise_ns"][place] == 0


@pytest.mark.parametrize("odd", [0.0, 0.2])
def test_offsets_and_noise(odd: float) -> None:
    offsets = [0.0, 50_000.0, -31_000.0, 7.0]
    run, matched = simulated(
        **LOOP, clock_offset_us=offsets, nodes=None, end_noise_us=7.0, odd_share=odd, odd_noise_us=400.0,
        collective_args="without_sequence", start_stagger_us=0.0,
    )  # fmt: skip
    told = np.array([clock["offset_ns"] for clock in run.ranks[0].truth["clocks"]])
    clocks = matched.estimated
    assert np.abs(clocks.offset_ns - (told - told[0])).max() < 12_000
    assert_matched(run, matched)
    for part, truth in enumerate(truth_of_parts(run, matched)):
        assert truth is not None
        one, place = truth
        if matched.number[part] >= 0 and not one["is_odd"]:
            assert abs(matched.wait_ns[part] - one["wait_ns"][place]) < 20_000


def test_hosts_whose_clocks_drift() -> None:
    run, matched = simulated(
        ranks=8, nodes=4, steps=12, program="loop", layers=10, python_stacks=False, dataloader_us=120_000.0,
        clock_offset_us=[0.0, 50_000.0, -20_000.0, 300.0], clock_drift_ppm=[0.0, 50.0, -30.0, 5.0], end_noise_us=7.0,
    )  # fmt: skip
    assert_matched(run, matched)
    assert sorted(set(matched.hosts)) == [0, 1, 2, 3]
    apart = matched.last_end_ns - matched.first_end_ns
    assert apart[np.isin(matched.kind, BARRIERS)].max() < 15_000
    assert matched.clocks.drift == pytest.approx([0, 50e-6, -30e-6, 5e-6], abs=4e-6)


@pytest.mark.parametrize("args", ["all", "without_sequence", "none"])
def test_dropped_and_extra_collectives(args: str) -> None:
    run, matched = simulated(
        **LOOP, dropped_collectives=((1, 3), (2, 9)), extra_collectives=((3, 6),), collective_args=args
    )
    assert_matched(run, matched)


@pytest.mark.parametrize("args", ["all", "without_sequence", "none"])
@pytest.mark.parametrize("only", [None, 2])
def test_recordings_that_begin_in_mid_step(only: int | None, args: str) -> None:
    """Collectives that some ranks did not record shift none of those that follow."""
    run, matched = simulated(
        layers=2, recording_begins_us=4_000.0, recording_begins_rank=only, collective_args=args, late_rank=3
    )
    assert_matched(run, matched)
    partial = 0
    for part, truth in enumerate(truth_of_parts(run, matched)):
        assert truth is not None
        one, place = truth
        number = int(matched.number[part])
        if None in one["kernels"]:
            partial += 1
        elif number < 0 or len(matched.parts_of(number)) < len(one["ranks"]):
            # without a launch and without arguments nothing tells that a kernel is part of a collective
            assert args == "none"
        elif one["is_barrier"]:
            assert matched.wait_ns[part] == one["wait_ns"][place]
            assert matched.transfer_ns[part] == one["transfers_ns"][place]
    assert partial or only is None


def test_clocks_of_hosts_whose_recordings_begin_at_other_moments() -> None:
    """One rank begins in mid-step, and its host is 3 ms ahead."""
    run, matched = simulated(
        layers=2, nodes=2, clock_offset_us=3_000.0, end_noise_us=2.0, recording_begins_us=4_000.0,
        recording_begins_rank=2,
    )  # fmt: skip
    assert_matched(run, matched)
    assert abs(int(matched.clocks.offset_ns[1] - matched.clocks.offset_ns[0]) - 3_000_000) < 5_000
