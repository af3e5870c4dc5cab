"""A comparison by structure as TraceLens's TraceDiff tells it."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

import numpy as np
from alignments import edited, graph, made
from call_trees import Call, copy, fill, frame, launch, module, op
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.alignment.common_ancestors import TraceLensDiff
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.schema import Kind


def hip(kernel: str, us: float = 1.0) -> Call:
    return Call("hipLaunchKernel", "cuda_runtime", kernel=kernel, kernel_us=us)


def told(a: list[Call] | Core, b: list[Call] | Core, modules: bool = True) -> TraceLensDiff:
    first, second = (one if isinstance(one, Core) else graph(one) for one in (a, b))
    return TraceLensDiff(diff(first, second), modules)


def names(found: TraceLensDiff) -> list[str]:
    return [found.tree.name(node) for node in range(len(found.tree.rows))]


def ancestors(found: TraceLensDiff) -> list[tuple[int | None, str | None, int, int]]:
    return [(one.node, one.name, *one.busy_ns) for one in found.ancestors]


def test_other_launch_calls_differ_below_the_op() -> None:
    found = told(
        [op("aten::linear", op("aten::mm", launch("k1", 3)))], [op("aten::linear", op("aten::mm", hip("k1", 5)))]
    )
    assert names(found) == ["aten::linear", "aten::mm", "cudaLaunchKernel", "k1", "hipLaunchKernel", "k1"]
    assert ancestors(found) == [(1, "aten::mm", 3000, 5000)]


def test_equal_launch_calls_differ_in_their_kernels() -> None:
    found = told([op("aten::mm", launch("k1", 3))], [op("aten::mm", launch("k2", 5))])
    assert names(found) == ["aten::mm", "cudaLaunchKernel", "k1 | k2"]
    assert ancestors(found) == [(2, "k1 | k2", 3000, 5000)]
    assert list(found.tree_lines()) == [
        "└── aten::mm", "    └── cudaLaunchKernel", "        └── combined: k1 | k2",
    ]  # fmt: skip


def test_wrappers_of_one_side_are_passed_over() -> None:
    plain = op("aten::mm", launch("k"))
    wrapped = module("Linear_0", frame("forward", op("aten::linear", op("aten::addmm_like", plain))))
    assert names(told([plain], [wrapped])) == ["aten::mm", "cudaLaunchKernel", "k"]


def test_of_ops_of_one_side_alone_the_innermost_is_drawn() -> None:
    zeros = op("aten::zeros", op("aten::zero_", op("aten::fill_", hip("fill_kernel", 2))))
    found = told([op("aten::attend", launch("flash_fwd_kernel", 3))], [op("aten::attend", zeros, hip("attn_fwd", 4))])
    assert names(found) == [
        "aten::attend", "cudaLaunchKernel", "flash_fwd_kernel", "aten::fill_", "hipLaunchKernel", "fill_kernel",
        "hipLaunchKernel", "attn_fwd",
    ]  # fmt: skip
    assert ancestors(found) == [(0, "aten::attend", 3000, 6000)]
    stats = found.diff_stats
    assert list(zip(stats["source"], stats["cpu_op_name"], stats["name"], strict=True)) == [
        ("trace1", "aten::attend", "flash_fwd_kernel"),
        ("trace2", "aten::fill_", "fill_kernel"),
        ("trace2", "aten::attend", "attn_fwd"),
    ]
    assert list(found.tree_lines()) == [
        "└── aten::attend",
        "    ├── >> trace1: cudaLaunchKernel",
        "    │   └── >> trace1: flash_fwd_kernel",
        "    ├── << trace2: aten::fill_",
        "    │   └── << trace2: hipLaunchKernel",
        "    │       └── << trace2: fill_kernel",
        "    └── << trace2: hipLaunchKernel",
        "        └── << trace2: attn_fwd",
    ]
    assert found.cpu_op_map_of("trace2") == {"aten::attend": ["attn_fwd"], "aten::fill_": ["fill_kernel"]}


def test_ops_at_the_top_count_without_gpu_work_too() -> None:
    a = [op("aten::view"), op("aten::mm", launch("k")), op("aten::view"), op("aten::t"), op("aten::add", launch("l"))]
    b = [op("aten::mm", launch("k")), op("aten::t"), op("aten::add", launch("l"))]
    found = told(a, b)
    assert names(found) == [
        "aten::view", "aten::mm", "cudaLaunchKernel", "k", "aten::view", "aten::t", "aten::add", "cudaLaunchKernel",
        "l",
    ]  # fmt: skip
    assert [found.tree.is_shared(node) for node in (0, 1, 4, 5, 6)] == [False, True, False, True, True]
    assert next(found.tree_lines(prune_non_gpu=True)) == "├── aten::mm"
    assert not any("view" in line for line in found.tree_lines(prune_non_gpu=True))


def test_what_one_side_alone_has_at_the_top_has_no_ancestor() -> None:
    found = told([op("aten::mm", launch("k")), op("aten::copy_", copy("DtoH", 7))], [op("aten::mm", launch("k"))])
    assert ancestors(found) == [(2, "k", 1000, 1000), (None, None, 7000, 0)]
    assert found.diff_stats["lowest_common_ancestor_id"] == [2, 2, None]
    assert found.diff_stats["busy_time"] == [1.0, 1.0, 7.0]
    assert found.perf_summary_by_lca["lowest_common_ancestor_id"] == [2]


def test_busy_time_is_a_union_and_the_sum_stands_beside_it() -> None:
    # Both kernels take 10 us; the second starts 2 us after the first.
    found = told([op("aten::mm", launch("k", 10), launch("l", 10, stream=8))], [op("aten::mm", hip("k", 24))])
    (row,) = found.perf_summary_by_lca.records()
    assert (row["kernel_time_trace1_us"], row["gpu_sum_trace1_us"]) == (12, 20)
    assert (row["kernel_time_trace2_us"], row["gpu_sum_trace2_us"]) == (24, 24)
    assert (row["speedup (trace2/trace1)"], row["speedup_of_trace2"]) == (2, 0.5)
    assert row["delta_us (trace2 - trace1)"] == 12
    assert row["kernel_names_trace1"] == ["k", "l"]


def test_calls_of_one_kind_are_one_row_of_the_summary() -> None:
    a = [op("aten::mm", launch("k", 2), launch("k", 3))]
    found = told(a, [op("aten::mm", hip("k", 9))]).diff_stats_unique_args_summary.records()
    assert [(row["source"], row["operation_count"], row["kernel_time_sum"]) for row in found] == [
        ("trace2", 1, 9.0),
        ("trace1", 2, 5.0),
    ]
    assert found[1]["kernel_time_mean"] == 2.5


@given(st.integers(0, 2**32), st.integers(0, 6))
def test_every_event_of_an_op_stands_once_and_swapping_mirrors(seed: int, edits: int) -> None:
    random, numbers = Random(seed), count()
    tree = made(random, numbers)
    # One op on its own, so that something is left whatever the edits delete.
    rest = op("aten::rest", launch("rest"))
    a, b = graph([tree.call(), rest]), graph([edited(tree, random, numbers, edits).call(), rest])
    found, swapped = told(a, b), told(b, a)
    for side, core in enumerate((a, b)):
        c = core.columns
        launched = core.gpu_rows[nearest_above(c, core.gpu_rows, (Kind.Op,)) >= 0]
        rows = [row for one in found.ancestors for row in one.events[side]]
        assert sorted(rows) == launched.tolist()
        assert sum(one.sum_ns[side] for one in found.ancestors) == int(c.dur_ns[launched].sum())
        assert found.tree.dropped[side] == len(core.gpu_rows) - len(launched)
    assert Counter(_events(one.events) for one in found.ancestors) == Counter(
        _events(one.events[::-1]) for one in swapped.ancestors
    )
    tree_rows = np.array(found.tree.rows)
    for side in (0, 1):
        own = tree_rows[tree_rows[:, side] >= 0, side]
        assert len(np.unique(own)) == len(own)


def _events(events: tuple[list[int], ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sorted(rows)) for rows in events)


# --- in the report -----------------------------------------------------------------------------------------------


def test_rows_of_the_unified_table_have_the_times_of_their_ancestors() -> None:
    a = graph([op("aten::mm", launch("k", 3)), op("aten::mm", launch("k", 5)), op("aten::add", launch("l", 1))])
    b = graph([op("aten::mm", hip("k", 4)), op("aten::mm", hip("k", 2)), op("aten::add", hip("l", 4))])
    tables = report_tables(a, ReportOptions(compare_with=b.everything))
    product, sum_ = tables["unified_perf_summary"].records()
    assert (product["name"], product["speedup (trace2/trace1)"], product["speedup_of_trace2"]) == (
        "aten::mm",
        0.75,
        8 / 6,
    )
    assert (product["delta_us (trace2 - trace1)"], product["lca_count_trace2"]) == (-2, 2)
    assert (product["lca_id"], product["lca_name"]) == ("0; 5", "aten::mm; aten::mm")
    assert (product["lca_total_kernel_time_trace1_us"], product["lca_total_kernel_time_trace2_us"]) == (8, 6)
    assert (sum_["speedup (trace2/trace1)"], sum_["speedup_of_trace2"]) == (4, 0.25)
    assert len(tables["diff_stats"]) == 6
    assert "diff_stats" in list(tables)
    columns = list(tables["unified_perf_summary"].columns)
    assert columns[columns.index("Kernel Time (µs)_sum") + 1] == "speedup (trace2/trace1)"


def test_an_ancestor_of_several_rows_is_said() -> None:
    extra = op("aten::copy_", copy("DtoD", 2)), op("aten::zero_", fill(3))
    a = graph([op("aten::outer", *extra, op("aten::mm", launch("k")))])
    b = graph([op("aten::outer", op("aten::mm", launch("k")))])
    table = report_tables(a, ReportOptions(compare_with=b.everything))["unified_perf_summary"]
    rows = {row["name"]: row for row in table.records()}
    for name in ("aten::copy_", "aten::zero_"):
        assert rows[name]["lca_total_kernel_time_trace1_us"] == 5
        assert (rows[name]["lca_count_trace2"], rows[name]["speedup_of_trace2"]) == (0, None)
    assert "1 lowest common ancestors hold work of several rows, and count whole in each" in table.notes
