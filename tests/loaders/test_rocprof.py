"""What AMD's profilers write: hand-made databases of three schemas, hand-made and recorded JSON results."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rocprof_runs import COPY, KERNEL, files, of_two_processes, result

import tracelens_graph as tlg
from corpus import needs_goldens
from tracelens_graph.errors import DamagedTraceWarning, TraceError


def test_each_form_of_one_run_becomes_the_same_graph(tmp_path: Path) -> None:
    for file in files(tmp_path):
        g = tlg.load(file)
        nodes = {data["name"]: (uid, data) for uid, data in g.nodes(data=True)}
        kernel, copy = (
            nodes[KERNEL][1],
            next(data for name, (_, data) in nodes.items() if "Copy" in name or COPY in name),
        )
        assert (kernel["dur_ns"], kernel["device"], kernel["stream"]) == (50_000, 2, 5), file
        assert (copy["kind"], copy["dur_ns"], copy["bytes"]) == ("Memcpy", 10_000, 4096), file
        op, launch = nodes["aten::mm"], nodes["hipLaunchKernel"]
        assert (op[1]["kind"], op[1]["sequence"], op[1]["pid"], op[1]["tid"]) == ("Op", 3, 100, 101), file
        assert launch[0] in g[op[0]], file
        assert nodes[KERNEL][0] in g[launch[0]], file
        table = tlg.QUESTIONS["ops_summary"](g).to_pandas()
        assert table.total_direct_kernel_time_ms.tolist() == [pytest.approx(0.06)], file
        assert g.framework.profiler == "AMD ROCm", file


def ms_of_mm(g: tlg.Graph) -> float:
    """GPU time that is charged to the op."""
    (ms,) = tlg.QUESTIONS["ops_summary"](g).to_pandas().total_direct_kernel_time_ms
    return float(ms)


def test_processes_with_a_gpu_are_ranks_whose_launches_stay_apart(tmp_path: Path) -> None:
    for file in of_two_processes(tmp_path):
        assert ms_of_mm(tlg.load(file)) == pytest.approx(0.1), file  # one graph of both
        ranks = tlg.load_set(file)
        assert [one.rank for one in ranks] == [0, 1], file
        assert next(one.core.threads for one in ranks)[-1][0] == 200, file
        assert [ms_of_mm(one.graph) for one in ranks] == [pytest.approx(0.04), pytest.approx(0.06)], file


def test_events_of_an_unpacked_result_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"rocprofiler-sdk-tool": [result()]}))
    g = tlg.load(tmp_path / "results.json")
    uid = next(uid for uid, name in g.nodes(data="name") if name == KERNEL)
    assert g.node(uid).args["grid"] == [4, 2, 1]
    assert g.save(tmp_path / "saved.tlg") is None
    assert tlg.load(tmp_path / "saved.tlg").node(uid).args["grid"] == [4, 2, 1]


@pytest.mark.parametrize("start", [None, -5])
def test_a_record_without_a_time_counts_as_lost(start: int | None, tmp_path: Path) -> None:
    one = result()
    (kernel,) = one["buffer_records"]["kernel_dispatch"]
    odd = {key: value for key, value in kernel.items() if key != "start_timestamp"}
    one["buffer_records"]["kernel_dispatch"].append(odd if start is None else odd | {"start_timestamp": start})
    (tmp_path / "results.json").write_text(json.dumps({"rocprofiler-sdk-tool": [one]}))
    with pytest.warns(DamagedTraceWarning, match="entries lost: 1"):
        g = tlg.load(tmp_path / "results.json")
    assert [data["dur_ns"] for _, data in g.nodes(data=True) if data["kind"] == "Kernel"] == [50_000]
    assert g.info.left_out["unreadable"] == 1


def test_a_result_cut_short_or_of_other_types_is_an_error_in_one_line(tmp_path: Path) -> None:
    text = json.dumps({"rocprofiler-sdk-tool": [result()]})
    odd = {"odd.json": text.replace("20000", '"soon"'), "huge.json": text.replace("20000", "1" * 400)}
    for name, bad in {"cut.json": text[:-40], **odd}.items():
        (tmp_path / name).write_text(bad)
        with pytest.raises(TraceError, match=rf"{name}: (the JSON result of rocprofv3|is not built)") as caught:
            tlg.load(tmp_path / name)
        assert "\n" not in str(caught.value)


DISPUTED = {
    ("Elementwise", "Memory Ops"): "copies, casts and fills by ATen's kernels for elementwise work",
    ("Normalization", "Reduction"): "lpnorm_cleanup is of a norm, not of a layer of normalisation",
    ("Reduction", "Embedding"): "sum_and_scatter is of the backward pass of an embedding",
    ("COMM", "Communication"): "another word", ("Memory", "Memory Ops"): "another word",
    ("Attention", "Flash Attention Forward"): "another word",
}  # fmt: skip
"""TraceLens's category and ours of a kernel -> why they differ. What it calls Other has a name with us."""


@pytest.fixture
def recorded(corpus: Path) -> tlg.Graph:
    return tlg.load(corpus / "external/rocprofv3/rocprof_908_results.json.gz")


@needs_goldens
def test_time_of_a_recorded_result_is_that_of_tracelens(recorded: tlg.Graph, goldens: Path) -> None:
    ours = tlg.QUESTIONS["gpu_timeline"](recorded).to_pandas().set_index("type")["time ms"]
    theirs = {row["type"]: float(row["time ms"]) for row in _rows(goldens / "rocprofv3/gpu_timeline.csv")}
    assert ours["busy_time"] == pytest.approx(theirs["busy_time"], abs=1e-6)
    assert theirs["kernel"] == theirs["busy_time"]  # no two kernels run at once
    # Its whole is the life of the process; ours begins with the first kernel and ends with the last.
    outside = theirs["total_time"] - ours["total_time"]
    assert theirs["idle"] == pytest.approx(ours["idle_time"] + outside, abs=1e-6)
    assert outside == pytest.approx(4085.508976, abs=1e-6)  # init_time to fini_time of the file, less the kernels' span


@needs_goldens
def test_kernels_of_a_recorded_result_are_those_of_tracelens(recorded: tlg.Graph, goldens: Path) -> None:
    c, total = recorded.columns, int(recorded.columns.dur_ns[recorded.gpu_rows].sum())
    durations: dict[str, list[int]] = {}
    for row in recorded.gpu_rows.tolist():
        durations.setdefault(_function(recorded.names[c.name[row]]), []).append(int(c.dur_ns[row]))
    rows = _rows(goldens / "rocprofv3/kernel_summary.csv")
    assert {row["name"].removesuffix(".kd") for row in rows} == durations.keys()  # .kd: a descriptor, not the kernel
    for row in rows:
        ours = durations[row["name"].removesuffix(".kd")]
        # It takes nanoseconds for microseconds: its "us" are our ns.
        for heading, value in {
            "Mean": np.mean(ours), "Median": np.median(ours), "Std": np.std(ours, ddof=1), "Min": min(ours),
            "Max": max(ours),
        }.items():  # fmt: skip
            assert float(row[f"{heading} Kernel Time (µs)"]) == pytest.approx(value), (row["name"], heading)
        assert int(row["Count"]) == len(ours)
        assert float(row["Total Kernel Time (ms)"]) == pytest.approx(sum(ours) / 1e3)
        assert float(row["Percentage (%)"]) == pytest.approx(100 * sum(ours) / total)


@needs_goldens
def test_categories_of_a_recorded_result_are_those_of_tracelens(recorded: tlg.Graph, goldens: Path) -> None:
    theirs = {
        row["name"].removesuffix(".kd"): row["Category"] for row in _rows(goldens / "rocprofv3/kernel_summary.csv")
    }
    sums: dict[str, list[float]] = {}
    for _, ours, kernel, count, ms in (
        tlg.QUESTIONS["kernel_category_detail"](recorded)
        .to_pandas()[["cpu_op", "kernel_category", "kernel_name", "count", "total_time_ms"]]
        .itertuples(index=False)
    ):
        category = theirs[_function(kernel)]
        assert ours == category or category == "Other" or (category, ours) in DISPUTED, kernel
        found = sums.setdefault(category, [0, 0])
        found[0] += count
        found[1] += ms
    rows = _rows(goldens / "rocprofv3/kernel_summary_by_category.csv")
    assert {row["op category"]: int(row["Count"]) for row in rows} == {key: one[0] for key, one in sums.items()}
    for row in rows:
        assert float(row["total_direct_kernel_time_ms"]) / 1e3 == pytest.approx(sums[row["op category"]][1])


def _function(name: str) -> str:
    """The name of a kernel's function, without its namespaces and templates."""
    plain = name.removeprefix("void ").replace("(anonymous namespace)", "")
    return re.split(r"[<(]", plain)[0].rsplit("::", 1)[-1]


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as text:
        return list(csv.DictReader(text))
