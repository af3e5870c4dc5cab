"""Changes and noise: no alarm between runs that differ by chance, and small changes of many calls are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tracelens_graph.analyses.across.margins import margin_ms
from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.noise import ALL, Noise, Proof, student
from tracelens_graph.analyses.alignment.reasons import Reason
from tracelens_graph.analyses.alignment.several import OWN_NOISE, odd_parts
from tracelens_graph.analyses.alignment.spread import odd_step
from tracelens_graph.analyses.alignment.tables import diff_tables
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.diff_text import changed_places, headline, notes_on
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate

Change = Callable[[str], float]
"""How many times as long GPU events of a name take."""


def run(seed: int, change: Change = lambda name: 1, **settings: Any) -> Core:
    """A run of the simulator whose kernels vary by up to 5 %, as a graph."""
    trace = simulate(**{"seed": seed, "jitter": 0.05, **settings}).ranks[0].trace
    later = 0.0
    for event in sorted((e for e in trace["traceEvents"] if e.get("cat") == "kernel"), key=lambda e: float(e["ts"])):
        more = float(event["dur"]) * (change(event["name"]) - 1)
        event["ts"], event["dur"] = float(event["ts"]) + later, float(event["dur"]) + more
        later += more
    return load_core(trace)


def compared(a: Core, b: Core) -> Diff:
    return diff(*median_steps(whole_window(a), whole_window(b)))


def noise_of(a: Core, b: Core) -> Noise:
    difference = compared(a, b)
    return Noise(difference, np.zeros(len(difference.places), bool))


def alarms(a: Core, b: Core) -> list[object]:
    """What is shown to have changed."""
    noise = noise_of(a, b)
    return [proof for proof in noise.proofs if proof is not Proof.noise] + [f for f in noise.families if f.is_proven]


def check_no_alarm(runs: Sequence[Core]) -> None:
    found = {pair: alarms(*(runs[one] for one in pair)) for pair in combinations(range(len(runs)), 2)}
    assert not {pair: what for pair, what in found.items() if what}


def gemm(name: str) -> float:
    return 1.03 if "gemm" in name else 1


def test_runs_that_differ_by_chance_raise_no_alarm() -> None:
    check_no_alarm([run(seed) for seed in range(4)])


def test_no_false_alarm_in_a_hundred_pairs() -> None:
    check_no_alarm([run(seed) for seed in range(15)])  # 105 pairs


def test_three_percent_of_a_family_are_found() -> None:
    for seed in range(3):
        noise = noise_of(run(seed), run(10 + seed, gemm))
        family = next(one for one in noise.families if one.name == "GEMM")
        assert family.is_proven
        assert family.low < 1.03 < family.high
        assert Proof.family in {noise.proofs[row] for row in family.places.tolist()}


def test_most_small_changes_of_families_are_found() -> None:
    before, after = [run(seed) for seed in range(5)], [run(10 + seed, gemm) for seed in range(5)]
    found = [bool(alarms(one, other)) for one in before for other in after]
    assert np.mean(found) >= 0.95


def test_a_clock_moves_all_families() -> None:
    noise = noise_of(run(1), run(2, lambda name: 1.1))
    family = next(one for one in noise.families if one.name == ALL)
    assert family.is_proven
    assert family.low < 1.1 < family.high


def test_intervals_hold_the_truth_and_add_up() -> None:
    difference = compared(run(1), run(2, lambda name: 2 if "flash" in name else 1))
    tables = diff_tables(difference)
    places = tables["diff_places"].records()
    slow = [row for row in places if "flash" in " ".join(row["kernels_a"])]
    assert {row["proof"] for row in slow} == {Proof.interval}
    assert all(row["low_ms"] < row["a_ms"] * 1.05 and row["high_ms"] > row["a_ms"] * 0.95 for row in slow)
    total = tables["diff_totals"].records()[0]
    assert sum(row["change_ms"] for row in places) == pytest.approx(total["change_ms"])
    bounds = sum(row["low_ms"] + row["high_ms"] for row in places)
    assert bounds == pytest.approx(total["low_ms"] + total["high_ms"], abs=1e-6 * (len(places) + 1))  # whole ns
    assert total["proof"] == Proof.interval


def uneven(seed: int, factors: Sequence[float]) -> Core:
    """A run whose steps are slow as wholes by factors."""
    steps, calls, kernels = len(factors), iter(range(10**6)), iter(range(10**6))
    run(seed, lambda name: 1 + 0 * next(kernels), steps=steps)
    each = next(kernels) // steps
    return run(seed, lambda name: factors[next(calls) // each % steps], steps=steps)


def test_steps_that_are_slow_as_wholes_are_no_slow_families() -> None:
    clocks = np.random.default_rng(1)
    check_no_alarm([uneven(seed, (1 + 0.02 * clocks.standard_normal(6)).tolist()) for seed in range(5)])


def test_what_steps_have_in_common_widens_the_total() -> None:
    """Steps that are slow as wholes move all places alike: their sum is no surer than the steps are."""

    factors = (1.0, 1.04, 0.98, 1.02, 0.96, 1.03, 0.97, 1.0)
    both = (uneven(1, factors), uneven(2, factors))
    rows = {row["time"]: row for row in diff_tables(compared(*both))["diff_totals"].records()}
    whole, part = (rows[name]["high_ms"] - rows[name]["low_ms"] for name in ("gpu_time", "computation_time"))
    assert whole > 0.7 * part


def test_what_steps_have_in_common_widens_what_places_prove() -> None:
    """Places that move alike from step to step prove less together than places that vary by themselves."""
    noise = noise_of(run(1, steps=4), run(2, gemm, steps=4))
    rows = np.arange(len(noise.change))
    variance, none = np.full(len(rows), 4.0), np.zeros(len(rows))
    apart, _ = noise._of_several(rows, variance, (none, none))
    alike, freedom = noise._of_several(rows, variance, (none, none + 2.0))
    assert apart == 4 * len(rows)
    assert alike == pytest.approx(apart + 4 * (len(rows) ** 2 - len(rows)))
    assert freedom == pytest.approx(6, rel=0.3)


def waiting(seed: int, factor: Change) -> Change:
    """Waits of collectives vary by several times what anything else became slower by."""
    waits = np.random.default_rng(seed)
    return lambda name: waits.uniform(1, 200) if "nccl" in name else factor(name)


def test_a_clock_counts_though_waits_hide_the_total() -> None:
    for seed, factor in ((1, 1.0), (2, 1.03)):
        a, b = (run(10 * one, waiting(one, lambda _: f), ranks=2) for one, f in ((seed, 1.0), (seed + 5, factor)))  # noqa: B023
        tables = diff_tables(compared(a, b))
        total = tables["diff_totals"].records()[0]
        computed = sum(row["a_ms"] for row in tables["diff_places"].records() if row["op"] != "record_param_comms")
        assert total["low_ms"] < 0 < total["high_ms"]
        assert total["proven_ms"] == pytest.approx((factor - 1) * computed, rel=0.4)


def test_what_places_prove_counts_though_waits_hide_the_total() -> None:
    slow = waiting(3, lambda name: 2 if "flash" in name else 1)
    a, b = run(1, waiting(3, lambda name: 1), ranks=2), run(2, slow, ranks=2)
    tables = diff_tables(compared(a, b))
    total = tables["diff_totals"].records()[0]
    flash = [row for row in tables["diff_places"].records() if "flash" in " ".join(row["kernels_a"])]
    assert total["low_ms"] < 0 < total["high_ms"]
    assert total["proof"] == Proof.places
    assert total["proven_ms"] == pytest.approx(sum(row["change_ms"] for row in flash))
    assert "beyond noise" in headline(tables["diff_totals"], changed_places(tables["diff_places"]))


def test_a_module_that_only_one_side_has_is_proven_by_its_own_time() -> None:
    noise = noise_of(run(1, steps=1), run(1, steps=1, recompute="non_reentrant"))
    rows = [row for row, proof in enumerate(noise.proofs) if proof is Proof.structure]
    assert rows
    assert (np.abs(noise.change)[rows] > noise.margin[rows]).all()


def test_few_slow_calls_are_no_slow_family() -> None:
    calls = iter(range(10**6))

    def one_layer(name: str) -> float:
        return 1.8 if 40 <= next(calls) < 70 else 1

    a, b = run(1, steps=1, layers=6, jitter=0.01), run(1, one_layer, steps=1, layers=6, jitter=0.01)
    assert not [note for note in noise_of(a, b).notes() if note.startswith(ALL)]
    assert noise_of(a, run(2, gemm, steps=1, layers=6, jitter=0.01)).notes()


def test_a_small_factor_of_all_kernels_is_found_though_they_vary() -> None:
    a, b = run(1, steps=1, layers=6, jitter=0.02), run(2, lambda name: 1.03, steps=1, layers=6, jitter=0.02)
    reasons = diff_tables(compared(a, b))["diff_places"]["reason"]
    assert np.mean([reason == Reason.clock for reason in reasons]) > 0.8
    for seed in range(2, 6):
        c = run(seed, steps=1, layers=6, jitter=0.02)
        assert Reason.clock not in diff_tables(compared(a, c))["diff_places"]["reason"]


def test_an_odd_step_is_named_and_no_change_of_the_others() -> None:
    a, per_step, calls = run(1, steps=4), len(rows_of_kind(run(1, steps=1).columns, (Kind.Kernel,))), iter(range(10**6))
    b = run(2, lambda name: 1.4 if next(calls) // per_step == 2 else 1, steps=4)
    assert odd_step(whole_window(a)) is None
    odd = odd_step(whole_window(b))
    assert odd is not None
    assert odd.ratio == pytest.approx(1.4, rel=0.05)
    assert alarms(a, b) == []
    assert any("1.4" in note and "as its other steps" in note for note in notes_on(compared(a, b)))


def test_without_noise_nothing_is_judged() -> None:
    tables = diff_tables(compared(run(1), run(2)), with_noise=False)
    assert set(tables["diff_places"]["proof"]) == {""}
    assert set(tables["diff_totals"]["low_ms"]) == {None}


def test_one_step_is_judged_by_equal_layers() -> None:
    """A layer of six that is slow on one side is no noise, though it is far from the others there."""
    calls = iter(range(10**6))

    def one_layer(name: str) -> float:
        return 3 if "flash_fwd" in name and next(calls) == 3 else 1

    a, b = run(1, steps=1, layers=6), run(2, one_layer, steps=1, layers=6)
    difference = compared(a, b)
    noise = Noise(difference, np.zeros(len(difference.places), bool))
    shown = [
        place.names[0] for place, proof in zip(difference.places, noise.proofs, strict=True) if proof is not Proof.noise
    ]
    assert shown == ["aten::_flash_attention_forward"]


@pytest.mark.parametrize(("share", "freedom", "quantile"), [(0.975, 10, 2.228), (0.9995, 8, 5.041), (0.99, 60, 2.390)])
def test_quantiles_of_student(share: float, freedom: int, quantile: float) -> None:
    assert student(share, np.array([freedom]))[0] == pytest.approx(quantile, rel=0.01)


def test_figures_by_name_have_margins() -> None:
    a, b, c = run(1), run(2), run(3, lambda name: 1.2 if "gemm" in name else 1)
    for table, rows in (("ops_summary_by_category", ("GEMM",)), ("ops_summary", ("aten::mm",))):
        margin = margin_ms((whole_window(a), whole_window(b)), table, rows)
        assert 0 < margin < 0.3
    times = [float(report_tables(core)["ops_summary_by_category"].records()[0]["total_direct_kernel_time_ms"])
             for core in (a, b, c)]  # fmt: skip
    margin = margin_ms((whole_window(a), whole_window(c)), "ops_summary_by_category", ("GEMM",))
    assert abs(times[1] - times[0]) < margin < times[2] - times[0]
    assert margin_ms((whole_window(a), whole_window(b)), "idle_causes", ("python",)) == 0


def test_an_odd_step_is_explained_by_its_largest_part_though_that_is_noise_alone() -> None:
    """Of three steps collectives vary too much to prove a change, and some products are slower without doubt."""
    trace = simulate(seed=1, jitter=0.05, steps=3, ranks=2).ranks[0].trace
    kernels = sorted((e for e in trace["traceEvents"] if e.get("cat") == "kernel"), key=lambda e: float(e["ts"]))
    waits = [event for event in kernels if "nccl" in event["name"]]
    for event in waits[-len(waits) // 3 :]:
        event["dur"] *= 4
    (step,) = [row for row in odd_parts(whole_window(load_core(trace))).records() if row["part"] == "step"]
    assert (step["name"], step["differs"]) == ("ProfilerStep#5", "time")
    assert "record_param_comms" in step["where"]
    assert step["why"].endswith(OWN_NOISE)
