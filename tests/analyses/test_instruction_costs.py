"""Costs of instructions by our rules and by XLA's, and that no work counts twice where loops run."""

from __future__ import annotations

import pytest
from handmade import small_trace, span
from handmade_jax import TRIPS, looping_profile, training_profile

from tracelens_graph.analyses.ops.instruction_costs import instruction_costs
from tracelens_graph.analyses.ops.programs import programs
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.loading.one import load_core

DOT = 2 * 8 * 8 * 8
"""Operations of the product in the loop."""
MOVED = 4 * 3 * 8 * 8
"""Its traffic."""


def test_costs_by_both_rules() -> None:
    names = ("instruction", "calls", "flops", "bytes", "xla_flops", "xla_bytes", "departs")
    found = [tuple(row[name] for name in names) for row in instruction_costs(load_core(looping_profile())).records()]
    rows, indices, three = 4 * 2 * 8, 4 * 2, 4 * 2 * 3
    assert found == [
        ("while.1", 2, TRIPS * (DOT + 1), TRIPS * (MOVED + 4), DOT + 1, MOVED + 4, "loop trips"),
        ("dot.1", 2 * TRIPS, DOT, MOVED, DOT, MOVED, None),
        ("fusion.2", 2, 0, 2 * rows + indices, 0, 4 * 100 * 8 + rows + indices, "gathered rows"),
        ("top_k.3", 2, 0, rows + three, -1, -1, "libraries"),
    ]


def test_programs_cost_what_xla_says() -> None:
    core = load_core(looping_profile())
    (row,) = programs(core).records()
    theirs = DOT + 1 - 1, 0, MOVED + 4 + 4 * 100 * 8 + 4 * 2 * 8 + 4 * 2 - 1
    assert (row["xla_flops"], row["xla_transcendentals"], row["xla_bytes"]) == theirs
    (note,) = instruction_costs(core).notes
    assert note.startswith("jit_loop by XLA's rules")
    assert note.endswith(f"{theirs[0]:,} FLOPs, 0 transcendentals, {theirs[2]:,} bytes")


def test_a_step_alone() -> None:
    found = QUESTIONS["instruction_costs"](load_core(looping_profile()), step=1)
    assert dict(zip(found["instruction"], found["calls"], strict=True)) == {
        "while.1": 1, "dot.1": TRIPS, "fusion.2": 1, "top_k.3": 1,
    }  # fmt: skip


def test_where_rules_agree_nothing_departs() -> None:
    found = instruction_costs(load_core(training_profile()))
    assert list(found["instruction"]) == ["dot.3", "dot.5", "fusion.4"]
    assert list(found["departs"]) == [None] * 3
    for name in ("flops", "transcendentals", "bytes"):
        assert list(found[name]) == list(found[f"xla_{name}"])


def test_the_work_of_a_loop_counts_once() -> None:
    """Kernels count for the instructions in the loop, and the loop has no work beside these."""
    core = load_core(looping_profile())
    rows = {row["name"]: row for row in unified_perf_summary(core).records()}
    assert "while.1" not in rows
    assert rows["dot.1"]["operation_count"] == 2 * TRIPS
    assert rows["dot.1"]["GFLOPS"] * 1e9 == pytest.approx(DOT)
    tables = report_tables(core)
    families = {row["name"]: name for name in tables for row in tables[name].records() if "GFLOPS_first" in row}
    assert families == {"dot.1": "GEMM", "fusion.2": "XLA", "top_k.3": "XLA"}


def test_traces_without_instructions_say_so() -> None:
    found = instruction_costs(load_core(small_trace()))
    assert (len(found), found.notes) == (0, ["no arguments of instructions of XLA are recorded"])


@pytest.mark.parametrize("figure", [2**63, -(2**63) - 1, 10**19], ids=str)
def test_figures_beyond_64_bits_are_no_costs(figure: int) -> None:
    ops = [span("cpu_op", name, at, 5, Instruction={"kind": "add", "flops": flops, "xla_bytes": flops})
           for name, at, flops in (("add.1", 0, figure), ("add.2", 9, 7))]  # fmt: skip
    (row,) = instruction_costs(load_core(ops)).records()
    assert (row["instruction"], row["flops"], row["bytes"], row["xla_bytes"]) == ("add.2", 7, 0, 7)
