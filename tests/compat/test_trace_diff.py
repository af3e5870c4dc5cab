"""TraceDiff as its users know it."""

from __future__ import annotations

from pathlib import Path

import pytest
from alignments import graph
from call_trees import Call, launch, module, op

from tracelens_graph.compat import TraceDiff, TraceToTree, generate_perf_report_pytorch
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core


def hip(kernel: str, us: float) -> Call:
    return Call("hipLaunchKernel", "cuda_runtime", kernel=kernel, kernel_us=us)


@pytest.fixture
def traces() -> tuple[Core, Core]:
    dims = {"Input Dims": [[2, 3], [3, 4]]}
    first = graph([module("Net_0", op("aten::mm", launch("sm90_gemm", 3), **dims)), op("aten::add", launch("add", 1))])
    second = graph([module("Net_0", op("aten::mm", hip("Cijk", 5), **dims)), op("aten::add", hip("add", 2))])
    return first, second


def test_the_calls_of_tracelens(traces: tuple[Core, Core], tmp_path: Path) -> None:
    found = TraceDiff(*map(TraceToTree, traces))
    assert found.diff_stats_df is None
    found.generate_tracediff_report()
    assert found.diff_stats_df is not None
    assert found.diff_stats_df["Input Dims"].tolist() == [((2, 3), (3, 4))] * 2 + [""] * 2
    assert found.diff_stats_df["kernel_time"].tolist() == [3, 5, 1, 2]
    assert found.diff_stats_unique_args_summary_df is not None
    assert found.diff_stats_unique_args_summary_df["kernel_time_sum"].tolist() == [5, 3, 2, 1]
    assert found.cpu_op_map == {
        "aten::mm": {
            "trace1": {"kernels": ["sm90_gemm"], "nn_module_parents": ["root"]},
            "trace2": {"kernels": ["Cijk"], "nn_module_parents": ["root"]},
        },
        "aten::add": {
            "trace1": {"kernels": ["add"], "nn_module_parents": ["root"]},
            "trace2": {"kernels": ["add"], "nn_module_parents": ["root"]},
        },
    }
    assert found.perf_summary_by_lca()["delta_us (trace2 - trace1)"].tolist() == [2, 1]
    found.print_tracediff_report_files(tmp_path / "rprt_diff", prune_non_gpu=True)
    assert (tmp_path / "rprt_diff" / "diff_stats.csv").exists()


def test_modules_are_told_with_python_frames(traces: tuple[Core, Core]) -> None:
    trees = [TraceToTree(trace) for trace in traces]
    assert set(TraceDiff(*trees).generate_diff_stats()["nn_module_parent"]) == {"root"}
    for tree in trees:
        tree.build_tree(add_python_func=True)
    assert set(TraceDiff(*trees).generate_diff_stats()["nn_module_parent"]) == {"root", "nn.Module: Net_0"}
    assert set(TraceDiff(*traces).generate_diff_stats()["nn_module_parent"]) == {"root", "nn.Module: Net_0"}


def test_nodes_have_partners(traces: tuple[Core, Core], capsys: pytest.CaptureFixture[str]) -> None:
    found = TraceDiff(*traces)
    (mine,), (other,) = (trace.find(name="aten::mm") for trace in traces)
    assert found.get_corresponding_uid(1, mine.uid) == other.uid
    assert found.get_corresponding_uid(2, other.uid) == mine.uid
    assert found.get_corresponding_uid(1, mine.kernels[0].uid) == -1
    found.print_merged_tree()
    assert capsys.readouterr().out.splitlines()[:3] == [
        "├── aten::mm",
        "│   ├── >> trace1: cudaLaunchKernel",
        "│   │   └── >> trace1: sm90_gemm",
    ]


def test_a_report_compares(traces: tuple[Core, Core], tmp_path: Path) -> None:
    first, second = traces
    sheets = generate_perf_report_pytorch(first, output_csvs_dir=tmp_path, comparison_json_path=second)
    row = sheets["unified_perf_summary"].iloc[0]
    assert (row["name"], row["speedup (trace2/trace1)"], row["lca_count_trace2"]) == ("aten::mm", 5 / 3, 1)
    assert len(sheets["diff_stats"]) == 4
    assert (tmp_path / "diff_stats.csv").read_text().count("((2, 3), (3, 4))") == 2


def test_what_has_no_gpu_work_is_refused(traces: tuple[Core, Core]) -> None:
    with pytest.raises(AnalysisError, match="holds no GPU events"):
        TraceDiff(traces[0], graph([op("aten::mm")]))


def test_convolutions_of_two_vendors_have_a_common_ancestor() -> None:
    """One library adds the bias inside its op, the other behind it."""
    bias = op("aten::add_", launch("add", 1))
    first = graph([op("aten::cudnn_convolution", launch("fprop", 9)), bias, op("aten::relu", launch("relu", 1))])
    add = op("aten::add_", hip("add", 1))
    second = graph([op("aten::miopen_convolution", hip("igemm", 7), add), op("aten::relu", hip("relu", 1))])
    stats = TraceDiff(first, second).generate_diff_stats()
    convolutions = stats[stats["cpu_op_name"].str.contains("convolution")]
    name = "aten::cudnn_convolution | aten::miopen_convolution"
    assert convolutions["lowest_common_ancestor_name"].tolist() == [name, name]
