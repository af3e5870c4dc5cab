"""Headlines: those of an expert on real traces, and those of planted problems, alone and mixed."""

from __future__ import annotations

import tomllib
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from handmade import call, gpu, span
from profiles import thorough

from corpus import CORPUS, GOLDENS, NO_GOLDENS, cases, loaded
from tracelens_graph.analyses.diagnosis.finding import ADVICE, KINDS, Finding
from tracelens_graph.analyses.diagnosis.headline import HOST_LEADS
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import PROBLEMS, Run, simulate

# -- real traces ----------------------------------------------------------------------------------------------

POINTS = 3.0
"""How far the main figure may be from the expert's, in percentage points."""
OTHER_FIGURE = {
    "hta/amd/mi250-minitoy": "start-up: the expert's figure is the share of the one call, ours that of all idle",
    "hta/nanosecond-resolution": "convolutions: the expert's figure is all computation, ours their own GPU time",
}
"""Traces whose main figure is another one than the expert's, and why; the expert's stands in the text, too."""

SAYINGS: dict[str, tuple[str, ...]] = {
    "say_host_bound": ("Host-bound", "waited for ops", "waited for Python"),
    "say_busy_100": ("busy 100", "busy for 100", "computed 100"),
    "say_gpu_idle": ("idle 9", "idle for 9", "idle 10"),
}
"""Tags of what must not be said -> words that would say it in a headline."""
TAGS = {"any_tuning": ("kernel_tuning", "gemm_tuning", "fusion"), "allocator": ("allocator",)}


@cache
def expert() -> dict[str, dict[str, Any]]:
    if NO_GOLDENS:
        return {}
    assert GOLDENS is not None
    return tomllib.loads((GOLDENS / "headlines.toml").read_text())


def headline_of(trace: str) -> tuple[Finding, list[Finding]]:
    assert CORPUS is not None
    found = verdict(loaded(CORPUS / trace))
    return found[0], found


traces = pytest.mark.parametrize("trace", cases((trace.removesuffix(".json.gz"), trace) for trace in expert()))


@traces
def test_the_headline_is_an_experts(trace: str) -> None:
    wanted = expert()[trace]
    headline, _ = headline_of(trace)
    assert headline.evidence["kind"] in (wanted["class"], *wanted["acceptable"]), headline.text


@traces
def test_the_main_figure_is_an_experts(trace: str) -> None:
    share = float(expert()[trace]["share"])
    headline, _ = headline_of(trace)
    # The expert's shares are of the GPU span, unless they are of GPU time or launches.
    of_time = headline.evidence["percent_of"] in ("steps", "gpu_span", "judged_span")
    main = float(headline.evidence["percent_of_span" if of_time else "percent"])
    if trace.removesuffix(".json.gz") in OTHER_FIGURE:
        assert abs(main - share) > POINTS, "the entry in OTHER_FIGURE is out of date"
        others = [float(word) for word in headline.text.replace("(", " ").split() if _is_number(word)]
        others.append(100 * float(headline.evidence.get("ms", 0)) / float(headline.evidence["gpu_span_ms"]))
        main = min(others, key=lambda number: abs(number - share))
    assert main == pytest.approx(share, abs=POINTS), headline.text


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()


@traces
def test_nothing_is_suggested_that_an_expert_would_not(trace: str) -> None:
    headline, found = headline_of(trace)
    advice = {name for finding in found for name in finding.advice}
    for tag in expert()[trace].get("not_tags", ()):
        assert not advice.intersection(TAGS.get(tag, (tag,))), tag
        assert not any(words in headline.text for words in SAYINGS.get(tag, ())), (tag, headline.text)


# -- planted problems -----------------------------------------------------------------------------------------

KIND = {
    "data_loader": "host.dataloader",
    "host_to_device_copy": "host.copies",
    "synchronization": "host.sync",
    "tiny_launches": "host.launches",
    "python_bound": "host.python",
    "exposed_communication": "comm.exposed",
}
"""Planted problem -> kind of run."""
HEALTHY: dict[str, dict[str, Any]] = {
    "data_loader": {"dataloader_us": 60.0},
    "host_to_device_copy": {"copy_mb": 0.0, "pageable": False},
    "synchronization": {"sync_every_step": False},
    "tiny_launches": {"tiny_kernels": 0},
    "python_bound": {"python_overhead_us": 0.0},
    "exposed_communication": {"bus_gb_per_s": 180.0},
    "late_rank": {"dataloader_us": 60.0, "dataloader_rank": None},
}
"""Planted problem -> the settings without it, whatever else is planted."""


def kinds(problem: str, rank: int) -> set[str]:
    """What a rank shows of a problem: one that waits for a late rank shows communication."""
    if problem == "late_rank":
        return {"comm.exposed"} if rank == 0 else {"host.dataloader"}
    return {KIND[problem]}


def named(headline: Finding) -> set[str]:
    """The kinds of run that a headline names."""
    evidence = headline.evidence
    causes = str(evidence.get("host_causes", "")).split(", ")
    found = {str(evidence.get(key)) for key in ("kind", "first", "second")}
    return found | {HOST_LEADS[Cause[cause]][0] for cause in causes if cause}


def lengths(run: Run) -> list[int]:
    """How long each rank took from its first event to its last, ns."""
    found = []
    for rank in run.ranks:
        columns = [rank.truth["host_events"], rank.truth["gpu_events"]]
        starts = [start for events in columns for start in events["start_ns"]]
        ends = [start + dur for events in columns
                for start, dur in zip(events["start_ns"], events["duration_ns"], strict=True)]  # fmt: skip
        found.append(max(ends) - min(starts))
    return found


def test_every_problem_has_a_kind() -> None:
    assert KIND.keys() | {"late_rank"} == HEALTHY.keys() == PROBLEMS.keys()
    assert set(KIND.values()) <= KINDS.keys()


@pytest.fixture
def seeds() -> range:
    """Ten in a thorough run, in which all pairs take some minutes."""
    return range(10 if thorough() else 1)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_planted_problem_is_the_headline(problem: str, seeds: range) -> None:
    for seed in seeds:
        for number, rank in enumerate(simulate(problem=problem, seed=seed).ranks):
            headline, *_ = verdict(load_core(rank.trace))
            assert named(headline) & kinds(problem, number), (seed, headline.text)


@pytest.mark.proof
@pytest.mark.parametrize(("first", "second"), list(combinations(PROBLEMS, 2)))
def test_of_two_problems_the_dearer_one_is_the_headline(first: str, second: str, seeds: range) -> None:
    """A problem costs what the run takes longer with it. A mixture may name both.

    One rank of several sees only itself: where it waits for another, its own time is lost to communication.
    """
    settings = {**PROBLEMS[first], **PROBLEMS[second]}
    ranks = settings.pop("ranks", 1)
    for seed in seeds:
        run = simulate(ranks, seed=seed, **settings)
        without = [lengths(simulate(ranks, seed=seed, **{**settings, **HEALTHY[one]})) for one in (first, second)]
        for number, (rank, took) in enumerate(zip(run.ranks, lengths(run), strict=True)):
            cost = [took - healthy[number] for healthy in without]
            dearer = {first: cost[0], second: cost[1]}
            wanted = [kinds(one, number) for one in dearer if dearer[one] == max(cost)]
            headline, *_ = verdict(load_core(rank.trace))
            found = named(headline)
            own = rank.truth["timeline"]
            is_waiting = "late_rank" in dearer and number == 0 and own["exposed_comm"] > own["idle"]
            assert (
                any(found & one for one in wanted)
                or all(found & kinds(one, number) for one in dearer)
                or (is_waiting and "comm.exposed" in found)
            ), (dearer, headline.text)


@pytest.mark.parametrize("recompute", ["none", "non_reentrant", "reentrant"])
def test_a_healthy_run_has_no_losses(recompute: str) -> None:
    for rank in simulate(recompute=recompute, seed=4, cuda_sync=True, layers=3).ranks:
        headline, *causes = verdict(load_core(rank.trace))
        assert float(headline.evidence["computation_percent_of_span"]) > 90
        assert {finding.topic for finding in causes} == {"kernels"}


# -- stops, by hand -------------------------------------------------------------------------------------------


def kind(events: list[dict[str, Any]]) -> str:
    return str(verdict(load_core(events))[0].evidence["kind"])


def busy(many: int, dur: float = 100, name: str = "gemm", gap: float = 0) -> list[dict[str, Any]]:
    """Kernels one after the other, each launched right before the gap in front of it ends."""
    events = []
    for n in range(many):
        start = 10 + n * (dur + gap)
        events += [call(start - 5, n + 1), gpu(start, dur, n + 1, name)]
    return events


def test_few_short_events_tell_nothing() -> None:
    assert kind(busy(19)) == "too_little"
    assert kind(busy(20)) == "compute.gemm"
    assert kind(busy(2, 2_500)) == "compute.gemm", "two, but long ones"


def test_without_launches_nothing_is_known_of_the_host() -> None:
    linked, lone = busy(5, 1_000), [gpu(10_000 + 1_000 * n, 1_000, 100 + n) for n in range(25)]
    assert kind([*linked, *lone]) == "too_little"
    assert kind([*linked, *lone[:20]]) == "compute.gemm", "80 % are not more than 80 %"


def test_a_capture_runs_nothing() -> None:
    launched, captured = busy(75), [call(20_000 + 10 * n, 1_000 + n) for n in range(25)]
    begin = span("cuda_runtime", "cudaStreamBeginCapture", 19_000, 5)
    assert kind([*launched, *captured]) == "compute.gemm", "no call that captures"
    assert kind([*launched, begin, *captured]) == "graph.capture"
    assert kind([*launched, begin, *captured[:24]]) == "compute.gemm", "less than a quarter"


def test_a_file_from_which_most_was_taken() -> None:
    def calls(numbers: range) -> list[dict[str, Any]]:
        return [event for n, number in enumerate(numbers)
                for event in (call(100 * n, number), gpu(100 * n + 5, 90, number))]  # fmt: skip

    assert kind(calls(range(1, 60_000, 100))) == "too_little"
    assert kind(calls(range(1, 18_000, 30))) == "compute.gemm", "3 % of the ids are there"


def test_start_up_is_told_from_launches() -> None:
    first = [call(0, 900, dur=90_000), gpu(90_005, 100, 900)]
    later = [event | {"ts": event["ts"] + 90_200} for event in busy(30, gap=20)]
    opening = [call(-50, 901), gpu(-45, 10, 901)]
    assert kind([*opening, *first, *later]) == "host.init"
    slow = [event | {"dur": 3_000} if event["cat"] == "cuda_runtime" else event for event in busy(30, gap=3_000)]
    assert kind(slow) != "host.init", "all launches are slow"


def test_work_that_the_recording_cut_off_is_left_out() -> None:
    opening = [call(0, 900), gpu(5, 5, 900), call(8, 901), gpu(50_000, 50, 901)]
    later = [event | {"ts": event["ts"] + 50_050} for event in busy(30, 1_000)]
    headline, *_ = verdict(load_core([*opening, *later]))
    assert headline.evidence["kind"] == "compute.gemm"
    assert headline.evidence["left_out_ms"] == 49.995
    assert "left out: 50.0 ms" in headline.text
    little, *_ = verdict(load_core([*opening, *later[:2]]))
    assert little.evidence["kind"] == "too_little"
    assert "left out: 50.0 ms" in little.text
    late = [call(0, 900), gpu(5, 5, 900), call(45_000, 901), gpu(50_000, 50, 901)]
    assert verdict(load_core([*late, *later]))[0].evidence["left_out_ms"] == 0, "launched too late for that"


def test_what_is_left_out_is_named_beside_the_gpu_span() -> None:
    """Verdict and timeline show one GPU span; shares of its last part are named as such, in words and in evidence."""
    opening = [call(0, 900), gpu(5, 5, 900), call(8, 901), gpu(50_000, 50, 901)]
    later = [event | {"ts": event["ts"] + 50_050} for event in busy(30, 200, gap=600)]
    core = load_core([*opening, *later])
    headline, *causes = verdict(core)
    (total,) = [row["time ms"] for row in gpu_timeline(core).records() if row["type"] == "total_time"]
    assert headline.evidence["gpu_span_ms"] == total
    assert headline.evidence["judged_span_ms"] == pytest.approx(total - float(headline.evidence["left_out_ms"]))
    assert "% of the last 23.5 ms of the GPU span of 73.5 ms" in headline.text
    assert headline.evidence["percent_of"] == "judged_span"
    assert {one.evidence["percent_of"] for one in causes} == {"judged_span"}
    assert all("of the last part of the GPU span" in one.text for one in causes if one.topic != "kernels")


def test_the_evidence_has_the_share_of_the_sentence() -> None:
    step = span("user_annotation", "ProfilerStep#1", 0, 20_000)
    work = [call(5_990, 1), gpu(6_000, 7_000, 1), call(6_500, 2), gpu(13_000, 6_000, 2, "ncclDevKernel_AllReduce")]
    lone = [gpu(10 + 1_000 * n, 1_000, 100 + n) for n in range(25)]
    for events, share in (([step, *work], "35.0 % (matrix"), (lone, "100.0 % of the GPU time")):
        headline, *_ = verdict(load_core(events))
        assert share.split()[0] == f"{headline.evidence['percent']:.1f}", headline.text
        assert share in headline.text
    assert headline.evidence["percent_of"] == "gpu_time"


def test_a_call_before_the_span_is_no_example_of_its_idle_time() -> None:
    """A call longer than the GPU span that ended before it, one that reaches into it, and one inside."""
    before = [call(-200_000, 800, "cudaFree", dur=190_000), call(-40_000, 801, "cudaMalloc", dur=40_100)]
    opening = [call(-10, 900), gpu(0, 10, 900)]
    first = [call(1_000, 901, dur=30_000), gpu(31_010, 100, 901)]
    later = [event | {"ts": event["ts"] + 31_200} for event in busy(30)]
    headline, *_ = verdict(load_core([*before, *opening, *first, *later]))
    assert headline.evidence["kind"] == "host.init"
    assert (headline.evidence["name"], headline.evidence["calls"]) == ("cudaLaunchKernel", 2)
    assert headline.evidence["longest_ms"] == pytest.approx(30)
    assert "up to 30.0 ms in cudaLaunchKernel" in headline.text
    share, whole = (float(headline.evidence[name]) for name in ("start_up_percent", "percent"))
    assert f"idle for {whole:.1f} %" in headline.text
    assert f"{100 * share / whole:.1f} % of that in 2 calls" in headline.text


def shares_of_a_run(computing: float, names: list[str], communicating: float, waiting: float) -> list[dict[str, Any]]:
    """Kernels of several names that take turns, then communication, then time in Python; ms."""
    events: list[dict[str, Any]] = []
    at, each = 10.0, 1_000 * computing / (20 * len(names))
    for number, name in enumerate(names * 20, 1):
        events += [call(at - 5, number), gpu(at, each, number, name)]
        at += each
    events += [call(at - 5, 900), gpu(at, 1_000 * communicating, 900, "ncclDevKernel_AllReduce_Sum")]
    at += 1_000 * communicating
    frame = span("python_function", "train.py(1): f", at, 1_000 * waiting - 10)
    return [*events, frame, call(at + 1_000 * waiting - 5, 901), gpu(at + 1_000 * waiting, 1, 901, names[0])]


@pytest.mark.parametrize(
    ("names", "kind"),
    [(["elementwise_kernel"], "memory.elementwise_norm"), (["elementwise_kernel"] * 2 + ["gemm"], "mixture")],
)
def test_a_family_gives_a_run_its_name_if_it_takes_enough_of_the_time(names: list[str], kind: str) -> None:
    """52 % computation against 25 and 23 %: all of it memory-bound, or two thirds, which is 35 %."""
    headline, *_ = verdict(load_core(shares_of_a_run(52, names, 25, 23)))
    assert headline.evidence["kind"] == kind, headline.text
    if kind == "mixture":
        assert (headline.evidence["first"], headline.evidence["second"]) == ("memory.elementwise_norm", "comm.exposed")


def test_what_together_takes_as_long_as_computing_is_named() -> None:
    headline, *_ = verdict(load_core(shares_of_a_run(46, ["elementwise_kernel"], 27, 27)))
    assert headline.evidence["kind"] == "memory.elementwise_norm"
    assert "exposed communication 27.0 %, waiting for the host 27.0 %" in headline.text


def test_the_steps_are_the_window() -> None:
    """The host prepares 40 ms before the first kernel of a step, of which the GPU's span knows nothing."""
    step = span("user_annotation", "ProfilerStep#1", 0, 50_000)
    work = [event | {"ts": event["ts"] + 40_000} for event in busy(30, 300)]
    frame = span("python_function", "train.py(1): prepare", 0, 39_000)
    headline, *causes = verdict(load_core([step, frame, *work]))
    assert headline.evidence["kind"] == "host.python"
    assert headline.evidence["host_ms"] == pytest.approx(50 - 9, abs=0.1)
    assert causes[0].evidence["because"] == "train.py(1): prepare"


def test_another_accelerator_is_no_gpu() -> None:
    launch = span("mtia_runtime", "runFunction", 0, 5, correlation=1)
    work = span("mtia_ccp_events", "fba_kernel", 10, 10_000, 0, 1, correlation=1, device=0, stream=1)
    headline, *others = verdict(load_core([launch, work]))
    assert headline.evidence["kind"] == "other_accelerator"
    assert "another accelerator (MTIA)" in headline.text
    assert others == []


def test_advice_is_known() -> None:
    for problem in PROBLEMS:
        for rank in simulate(problem=problem, seed=1).ranks:
            for finding in verdict(load_core(rank.trace)):
                assert set(finding.advice) <= ADVICE.keys()
                assert len(finding.suggestions) == len(finding.advice)
