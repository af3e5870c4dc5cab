"""Tables of a server's steps: known answers, the truth of simulated servers, and that rows add up."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade import call, gpu, span

from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.diagnosis.account import account_of
from tracelens_graph.analyses.diagnosis.server import host_parts_between
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.serving.compared import phases_table
from tracelens_graph.analyses.serving.costs import step_costs
from tracelens_graph.analyses.serving.iterations import iterations, served_in
from tracelens_graph.analyses.serving.phases import phases, steady_state, stretches
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import narrow, whole_window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.serving import simulate
from tracelens_graph.tables.terminal import aligned


@cache
def simulated(**settings: Any) -> tuple[Core, dict[str, Any]]:
    run = simulate(**settings).ranks[0]
    return load_core(run.trace), run.truth


def step(name: str, at: float, work: list[tuple[float, float]], number: int) -> list[dict[str, Any]]:
    """A range of 10 us and the GPU work that it launches, as (start, duration)."""
    events = [span("user_annotation", name, at, 10)] if name else []
    for place, (start, dur) in enumerate(work):
        events += [call(at + 1, 10 * number + place + 1, dur=1), gpu(start, dur, 10 * number + place + 1)]
    return events


@cache
def by_hand() -> Core:
    return load_core([
        *step("execute_context_1(100)_generation_0(0)", 0, [(5, 40)], 0),
        *step("execute_context_0(0)_generation_4(4)", 50, [(60, 10), (75, 5)], 1),
        *step("", 65, [(90, 5)], 2),
        *step("decode[bs=3/8 tok=3 d=3]", 110, [(115, 15)], 3),
    ])  # fmt: skip


def test_iterations_by_hand() -> None:
    table = iterations(by_hand())
    rows = table.records()
    assert [row["phase"] for row in rows] == ["prefill", "decode", "decode", "(between)"]
    assert [row["iteration"] for row in rows] == [0, 1, 2, None]
    assert [(row["captured"], row["padding"]) for row in rows] == [(None, None)] * 2 + [(8, 5), (None, None)]
    assert [row["context_tokens"] for row in rows[:3]] == [100, 0, 0]
    assert [row["device_ms"] for row in rows[:3]] == pytest.approx([0.055, 0.055, 0.015])
    assert [row["busy_ms"] for row in rows] == pytest.approx([0.04, 0.015, 0.015, 0.005])
    assert [row["idle_ms"] for row in rows[:3]] == pytest.approx([0.015, 0.035, 0.0])
    assert [row["gap_ms"] for row in rows] == pytest.approx([0.0, 0.015, 0.02, 0.01])
    assert [row["host_gap_ms"] for row in rows[1:3]] == pytest.approx([0.04, 0.05])
    assert rows[0]["tokens_per_s"] == pytest.approx(100 / 55e-6)
    assert sum(table["gpu_events"]) == 5
    assert any("1 of 5 GPU events were launched in no iteration" in note for note in table.notes)


def test_phases_by_hand() -> None:
    rows = {row["phase"]: row for row in phases(by_hand()).records()}
    assert list(rows) == ["prefill", "decode", "(between)"]
    decode = rows["decode"]
    assert (decode["iterations"], decode["generation_tokens"], decode["requests"]) == (2, 7, 3.5)
    assert decode["token_us"] == pytest.approx(10)
    assert decode["idle_percent"] == pytest.approx(50)
    assert decode["padding_percent"] == pytest.approx(62.5)
    assert rows["prefill"]["token_us"] == pytest.approx(0.55)
    assert sum(row["percent_of_device"] for row in rows.values()) == pytest.approx(100)


def test_a_window_has_its_own_iterations() -> None:
    table = iterations(by_hand().window(iteration=1))  # type: ignore[attr-defined]
    assert list(table["iteration"]) == [1]
    assert table.title == "Iterations of a server (iteration 1)"
    assert table.records() == iterations(by_hand()).records()[1:2]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_left_out_iterations_are_no_idle_time_and_end_those_before_them(engine: str) -> None:
    core, _ = simulated(engine=engine, sizes=(8, 16, 32), seed=5)
    everything = {row["iteration"]: row for row in iterations(core).records()}
    for phase in {row["phase"] for row in everything.values()} & {"prefill", "decode", "mixed"}:
        w = narrow(whole_window(core), phase=phase)
        rows = iterations(w).records()
        assert repr(rows) == repr([everything[row["iteration"]] for row in rows])
        (summed,) = phases(w).records()
        assert summed["gap_ms"] == pytest.approx(sum(row["gap_ms"] for row in rows))
        account, (times,) = account_of(w), [dict(zip(*(gpu_timeline(w)[c] for c in ("type", "time ms")), strict=True))]
        assert account.window_ns / 1e6 == pytest.approx(times["total_time"])
        assert sum(account.parts().values()) == account.window_ns
        assert account.causes.sum() / 1e6 == pytest.approx(times["idle_time"])
        found = {one.topic: one for one in verdict(w)}
        assert "outside" not in found
        assert found["server_gaps"].evidence["ms"] == pytest.approx(summed["gap_ms"])
    phases_of_all = {row["phase"]: row for row in phases(core).records()}
    assert (
        phases(narrow(whole_window(core), phase="decode")).records()[0]["token_us"]
        == phases_of_all["decode"]["token_us"]
    )


def test_time_that_the_recording_cut_off_is_of_no_iteration() -> None:
    core = load_core([
        span("user_annotation", "execute_context_0(0)_generation_4(4)", 0, 2000),
        call(1, 1, dur=1), gpu(2, 1, 1), call(5, 2, dur=1), gpu(1500, 10, 2), call(7, 3, dur=1), gpu(1512, 8, 3),
    ])  # fmt: skip
    (row,) = iterations(core).records()
    assert (row["device_ms"], row["busy_ms"], row["gpu_events"]) == (pytest.approx(0.02), pytest.approx(0.019), 3)
    assert phases(core).records()[0]["step_ms"] == pytest.approx(0.02)
    assert steady_state(core).records()[0]["step_ms"] == pytest.approx(0.02)
    for table in (iterations(core), phases(core)):
        assert sum("leave out 1.5 ms" in note and "count the 1 GPU event in it" in note for note in table.notes) == 1


def test_without_iterations() -> None:
    core = load_core(step("", 0, [(5, 10)], 0))
    for question in (iterations, phases, steady_state, step_costs):
        table = question(core)
        assert len(table) == 0
        assert "no iterations" in table.notes[0]


PHASE = {"prefill_only": "prefill", "prefilldecode": "mixed", "mixed": "mixed", "decode_only": "decode"}
"""What the truth of a simulated server calls phases."""


def test_simulated_vllm() -> None:
    core, truth = simulated(steps=60)
    table, true = iterations(core), truth["iterations"]
    assert list(table["phase"]) == [PHASE[phase] for phase in true["phase"]]
    for name in ("requests", "context_requests", "context_tokens", "generation_requests", "keys", "gpu_events"):
        assert list(table[name]) == true[name], name
    for name in ("gpu_sum", "busy"):
        ns = true["gpu_busy_ns" if name == "busy" else "gpu_sum_ns"]
        assert np.rint(1e6 * np.asarray(table[f"{name}_ms"])).tolist() == ns
    assert np.rint(1e6 * np.asarray(table["gap_ms"])).tolist()[1:] == true["gap_ns"][1:]


def test_simulated_sglang() -> None:
    core, truth = simulated(steps=60, engine="sglang", annotations="native", capture="none")
    table, true = iterations(core), truth["iterations"]
    inside = [row for row in table.records() if row["iteration"] is not None]
    assert [row["phase"] for row in inside] == [PHASE[phase] for phase in true["phase"]]
    assert [row["requests"] for row in inside] == true["requests"]
    assert sum(table["gpu_events"]) == sum(true["gpu_events"])


def test_rows_add_up() -> None:
    core, _ = simulated(steps=60)
    whole = int(core.columns.dur_ns[core.gpu_rows].sum()) / 1e6
    for table in (iterations(core), phases(core)):
        assert sum(table["gpu_sum_ms"]) == pytest.approx(whole)
    assert sum(phases(core)["device_ms"]) == pytest.approx(np.nansum(np.asarray(iterations(core)["device_ms"], float)))


def test_costs_of_steps() -> None:
    core, truth = simulated(steps=120)
    found = {(row["phase"], row["term"]): row for row in step_costs(core).records()}
    true = truth["cost"]
    token, fixed, key = found["all", "context token"], found["all", "fixed"], found["decode", "key"]
    assert token["ns"] == pytest.approx(true["row_ns"], rel=0.05)
    assert key["ns"] == pytest.approx(true["key_ns"], rel=0.5)
    assert fixed["ns"] == pytest.approx(true["fixed_ns"], rel=0.1)
    assert abs(key["ns"] - true["key_ns"]) < 3 * key["std_error"]
    assert all(0.9 < row["r2"] <= 1 for row in found.values())


def test_costs_that_cannot_be_known() -> None:
    def steps(sizes: list[int]) -> Core:
        name, at = "execute_context_0(0)_generation_{0}({0})", 100
        made = (step(name.format(size), at * n, [(at * n + 20, 30)], n) for n, size in enumerate(sizes))
        return load_core([event for events in made for event in events])

    table = step_costs(steps([4] * 20))
    assert len(table) == 0
    assert any("hardly varies" in note for note in table.notes)
    table = step_costs(steps([1, 2, 3, 4]))
    assert len(table) == 0
    assert any("4 steps are too few" in note for note in table.notes)


def test_costs_below_zero_are_left_out_and_the_source_of_sizes_noted() -> None:
    core, truth = simulated(platform="rocm", seed=7, sizes=(8, 16), steps=30)
    table = step_costs(core)
    assert all(row["ns"] >= 0 for row in table.records() if row["term"] != "fixed")
    assert any("grids of their norms" in note for note in table.notes)
    (found,) = (one for one in verdict(core) if one.topic == "server_fixed")
    assert found.evidence["fixed_us"] == pytest.approx(truth["cost"]["fixed_ns"] / 1e3, rel=0.15)


def test_stalls_compare_means() -> None:
    core, _ = simulated(steps=60)
    rows = {row["phase"]: row for row in phases(core).records()}
    ratio = (rows["mixed"]["device_ms"] / rows["mixed"]["iterations"]) / (
        rows["decode"]["device_ms"] / rows["decode"]["iterations"]
    )
    (stalls,) = (one for one in verdict(core) if one.topic == "server_prompts")
    assert stalls.evidence["ratio"] == pytest.approx(ratio)


def test_stretches_of_the_steady_state() -> None:
    core, _ = simulated(steps=200, seed=3)
    found = served_in(core)
    region, *others = stretches(found, 32)
    assert (region.name, region.first, region.behind) == ("region", *found.found.steady)
    for one in others:
        assert region.first <= one.first < one.behind <= region.behind
        assert one.behind - one.first <= 32
    of = {one.name: set(found.phases[one.first : one.behind].tolist()) for one in others}
    assert of["decode"] == {"decode"}
    assert of["prefill"] <= {"prefill", "mixed"}
    assert of["mixed"] & {"prefill", "mixed"}
    assert steady_state(core)["iterations"][0] == region.behind - region.first


# --- the first screen ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("culprit", ["scheduler", "sampling", "detokenise"])
def test_what_keeps_the_gpu_idle_between_steps(engine: str, culprit: str) -> None:
    core, truth = simulated(steps=40, engine=engine, culprit=culprit)
    found = {one.topic: one for one in verdict(core)}
    evidence = found["server_gaps"].evidence
    assert evidence["python"] == f"plugins/{culprit}_hook.py(31): run"
    parts = [gap for gap in truth["iterations"]["gap_parts"] if gap]
    for part in ("scheduler", "sampling", "detokenise"):
        assert evidence[f"{part}_ms"] == pytest.approx(sum(gap[part] for gap in parts) / 1e6, rel=0.02)
    assert not found.keys() & {"python", "synchronization"}


def test_the_headline_names_what_the_host_did_between_steps() -> None:
    core, _ = simulated(steps=60, sizes=(8, 16), culprit="detokenise")
    headline, server, *_ = list(verdict(core))
    assert headline.evidence["kind"] == "host.python"
    assert "detokenising between steps" in headline.text
    # All figures of a phase are means: the time of a step is that of its tokens.
    rows = {row["phase"]: row for row in phases(core).records()}
    tokens = rows["decode"]["generation_tokens"] / rows["decode"]["iterations"]
    mean_us = 1e3 * float(server.evidence["decode_mean_ms"])
    assert mean_us == pytest.approx(tokens * float(server.evidence["decode_token_us"]))


def products(name: str) -> list[dict[str, Any]]:
    """A step of a server, or other range, with three products; the longest is not of the usual op."""
    work = [("aten::mm", 0, 2_900), ("aten::mm", 20, 2_900), ("aten::addmm", 40, 3_000)]
    events = [span("user_annotation", name, 0, 70)]
    for place, (op, at, dur) in enumerate(work):
        events += [
            span("cpu_op", op, at + 1, 10),
            call(at + 2, place + 1, dur=1),
            gpu(100 + 3_100 * place, dur, place + 1),
        ]
    return events


def test_products_of_unknown_sizes_are_not_called_compute_bound() -> None:
    server, other = (verdict(load_core(products(name)))[0] for name in ("decode[bs=8/8 tok=8 d=8]", "range"))
    assert server.evidence["kind"] == other.evidence["kind"] == "compute.gemm"
    assert other.text.startswith("Compute-bound")
    assert server.text.startswith("Matrix products lead")


def test_a_kernel_is_of_the_op_that_runs_it_most() -> None:
    (found,) = (one for one in verdict(load_core(products("range"))) if one.topic == "kernels")
    assert found.evidence["op"] == "aten::mm"
    assert "mostly of aten::mm" in found.text


def test_parts_of_gaps_add_up() -> None:
    core, _ = simulated(steps=60)
    served = served_in(core)
    parts = host_parts_between(served)
    assert sum(parts.ns.values()) == int(served.gap_ns.sum())
    assert parts.leads == "scheduler"


def test_the_first_screen_of_a_server() -> None:
    core, truth = simulated(steps=120)
    found = {one.topic: one for one in verdict(core)}
    first = found["server"].evidence
    assert first["iterations"] == 120
    assert first["prompt_token_us"] == pytest.approx(truth["cost"]["row_ns"] / 1e3, rel=0.05)
    assert found["server_prompts"].evidence["iterations"] == first["mixed_iterations"]
    assert found["server_fixed"].evidence["fixed_us"] == pytest.approx(truth["cost"]["fixed_ns"] / 1e3, rel=0.1)
    assert "server_padding" not in found


@pytest.mark.parametrize(
    ("beside", "engine"),
    [
        ([], ""),
        ([span("user_annotation", "step[DECODE bs=4]", 1, 6)], " (SGLang)"),
        ([span("python_function", "sglang/srt/managers/scheduler.py(10): run", 0, 9)], " (SGLang)"),
        ([span("python_function", "/sgl/vllm/v1/worker/gpu_model_runner.py(10): execute", 0, 9)], " (vLLM)"),
    ],
)
def test_the_engine_is_what_more_than_a_form_of_annotation_shows(beside: list[dict[str, Any]], engine: str) -> None:
    name = "execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk40sqsq4sqsk40)"
    steps = [event for n in range(8) for event in step(name, 400 * n, [(400 * n + 9, 390)] * 3, n)]
    (found,) = (one for one in verdict(load_core([*steps, *beside])) if one.topic == "server")
    assert found.text.startswith(f"A server's steps{engine}: ")


def test_padding_on_the_first_screen() -> None:
    events = [event for n in range(30) for event in step("decode[bs=5/8 tok=5 d=5]", 400 * n, [(400 * n + 9, 390)], n)]
    found = {one.topic: one for one in verdict(load_core(events))}
    assert found["server_padding"].evidence["percent"] == pytest.approx(37.5)
    assert "server_gaps" not in found


# --- comparison ------------------------------------------------------------------------------------------------------


def test_servers_are_compared_by_equal_phases() -> None:
    first, second = (window_of(simulated(steps=40, seed=seed)[0]) for seed in (0, 5))
    sides = median_steps(first, second)
    batches = [served_in(side).batches for side in sides]
    assert len(batches[0]) == len(batches[1]) > 1
    assert {one.phase for one in batches[0]} == {one.phase for one in batches[1]} == {"decode"}
    sizes = [{one.size for one in side} for side in batches]
    assert max(*sizes[0], *sizes[1]) <= 1.25 * min(*sizes[0], *sizes[1]) + 1
    # The other way round they are the same, and what is alike is compared with what is alike.
    assert [side.title for side in median_steps(second, first)] == [side.title for side in reversed(sides)]
    one, other = median_steps(first, first)
    assert one.title == other.title


def decode_steps(gaps: list[float], requests: int = 4) -> Core:
    """Decode steps of 50 us on the GPU, the second half of each behind 10 us, and a gap before each."""
    events, at = [], 0.0
    for number, gap in enumerate([0, *gaps]):
        at += gap
        name = f"execute_context_0(0)_generation_{requests}({requests})"
        events += step(name, at - 11, [(at, 20), (at + 30, 20)], number)
        at += 50
    return load_core(events)


def test_a_slow_host_between_steps_shows_in_a_comparison() -> None:
    quick, slow = (window_of(decode_steps([us, us, 3 * us])) for us in (20, 60))
    table = phases_table(quick, slow, ("quick", "slow"))
    assert table is not None
    (row,) = table.records()
    assert (row["phase"], row["iterations_a"], row["iterations_b"], row["requests_a"]) == ("decode", 4, 4, 4)
    assert (row["gpu_ms_a"], row["gpu_ms_b"]) == pytest.approx((0.04, 0.04))
    assert (row["idle_ms_a"], row["idle_ms_b"]) == pytest.approx((0.01, 0.01))
    assert (row["gap_ms_a"], row["gap_ms_b"]) == pytest.approx((0.025, 0.075))
    assert (row["change_ms"], row["change_percent"]) == pytest.approx((0.05, 200 / 3))
    assert row["tokens_per_s_a"] == pytest.approx(4 / 75e-6)
    back = phases_table(slow, quick, ("slow", "quick"))
    assert back is not None
    assert back.records()[0]["change_ms"] == pytest.approx(-0.05)


def test_time_before_a_server_serves_is_no_change_of_its_steps() -> None:
    def loaded(us: float) -> Core:
        """A kernel that runs before the first of four steps, by some time."""
        steps = [
            step("execute_context_0(0)_generation_4(4)", at, [(at + 1, 20)], n) for n, at in enumerate((0, 40, 80, 120))
        ]
        return load_core([*step("", -us, [(1 - us, 5)], 9), *(event for one in steps for event in one)])

    table = phases_table(window_of(loaded(50)), window_of(loaded(463_000)), ("a", "b"))
    assert table is not None
    decode = table.records()[0]
    assert (decode["iterations_a"], decode["iterations_b"]) == (3, 3)
    assert decode["gap_ms_a"] == decode["gap_ms_b"] == pytest.approx(0.02)


def test_each_size_counts_as_much_on_both_sides() -> None:
    # One has 8 steps of 4 requests and 2 of 8, the other 2 and 8: two of each are held against two of each.
    def server(counts: tuple[int, int]) -> Core:
        sizes = [4] * counts[0] + [8] * counts[1]
        names = [f"execute_context_0(0)_generation_{size}({size})" for size in sizes]
        return load_core([
            event for n, (name, size) in enumerate(zip(names, sizes, strict=True))
            for event in step(name, 100 * n, [(100 * n + 20, 5 * size)], n)
        ])  # fmt: skip

    table = phases_table(window_of(server((8, 2))), window_of(server((2, 8))), ("a", "b"))
    assert table is not None
    (row,) = table.records()
    assert (row["iterations_a"], row["iterations_b"]) == (10, 10)
    assert row["requests_a"] == row["requests_b"] == 6
    assert row["gpu_ms_a"] == row["gpu_ms_b"] == pytest.approx(0.03)
    assert not table.notes


def test_phases_of_one_side_and_of_other_sizes_are_named() -> None:
    four, hundred = (decode_steps([20] * 3, requests) for requests in (4, 100))
    table = phases_table(window_of(four), window_of(hundred), ("a", "b"))
    assert table is not None
    assert (len(table), len(table.notes)) == (1, 1)
    other = load_core(
        [event for n in range(3) for event in step("prefill[bs=1 tok=9]", 100 * n, [(100 * n + 20, 30)], n)]
    )
    table = phases_table(window_of(four), window_of(other), ("a", "b"))
    assert table is not None
    assert table.notes == ["only a has decode steps", "only b has prefill steps"]


def test_servers_without_a_common_phase_are_compared_whole() -> None:
    servers = [
        window_of(load_core([event for n in range(3) for event in step(name, 100 * n, [(100 * n + 20, 30)], n)]))
        for name in ("execute_context_1(9)_generation_0(0)", "execute_context_0(0)_generation_1(1)")
    ]
    assert median_steps(servers[0], servers[1]) == (servers[0], servers[1])


def test_narrow_terminals_keep_what_a_server_is_judged_by() -> None:
    core, _ = simulated(seed=1, steps=30)
    kept = {
        phases: ("step ms", "us/token", "tokens/s", "idle %"),
        iterations: ("phase", "requests", "device", "tokens/s"), steady_state: ("requests", "step ms", "tokens/s"),
    }  # fmt: skip
    for question, headings in kept.items():
        table = question(core)
        rest = [name for name, column in table.about.items() if column.heading]
        lines = aligned([(name, table.about[name], list(table[name])) for name in rest], 80).lines
        assert all(any(heading in line for line in lines[:3]) for heading in headings)


def test_steps_of_other_phases_are_counted_in_the_steady_state() -> None:
    core, _ = simulated(seed=1, steps=12, annotations="none")
    for row in steady_state(core).records():
        assert row["unknown"] == row["iterations"] - row["prefill"] - row["mixed"] - row["decode"] > 0
