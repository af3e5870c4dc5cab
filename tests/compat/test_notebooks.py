"""The calls that TraceLens's example notebooks make, in their order and with their arguments, import lines apart.

One test per notebook, on recordings of both vendors and on a simulated run. What a notebook draws or prints is held
against the graph instead.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from corpus import CORPUS, needs_corpus
from tracelens_graph import compat
from tracelens_graph.compat import GPUEventAnalyser, NcclAnalyser, TreePerfAnalyzer
from tracelens_graph.compat.PerfModel import dict_cat2names
from tracelens_graph.compat.PerfModel.perf_model import GEMM, SDPA
from tracelens_graph.compat.TreePerf import TreePerfAnalyzer as TreePerfAnalyzerOfPackage
from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate, write

STACKS = ["simulated", "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/bert-small"]
"""Runs with Python stacks and modules."""
TRAINING = ["simulated", "tracelens/mi300/resnet-ddp-checkpointing"]


@lru_cache(maxsize=8)
def source(name: str) -> Any:
    """What a notebook would be given the path of; loaded once for all tests."""
    if name == "simulated":
        return load_core(simulate(ranks=1, steps=2, seed=7).ranks[0].trace)
    assert CORPUS is not None
    return load_core(CORPUS / f"{name}.json.gz")


def on(*names: str) -> pytest.MarkDecorator:
    marks: dict[bool, Any] = {True: (), False: needs_corpus}
    return pytest.mark.parametrize("path", [pytest.param(n, id=n, marks=marks[n == "simulated"]) for n in names])


@contextlib.contextmanager
def printed() -> Iterator[io.StringIO]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        yield out


# --- trace2tree --------------------------------------------------------------------------------------------------


@on(*STACKS)
def test_trace2tree(path: str) -> None:
    analyzer = TreePerfAnalyzerOfPackage.from_file(source(path), add_python_func=True)
    tree = analyzer.tree
    assert len(tree.events) == len(source(path).columns)
    chosen = next(evt for evt in tree.events if evt.get("name") == "aten::linear" and evt.get("cat") == "cpu_op")
    assert chosen.get("dur", 0) >= 0
    with printed() as subtree:
        tree.traverse_subtree_and_print(chosen)
    with printed() as parents:
        root = tree.traverse_parents_and_print(chosen, cpu_op_fields=("Input Dims", "Input type"))
    assert "aten::linear" in subtree.getvalue()
    assert "Input Dims" in parents.getvalue()
    assert f"name: {root['name']}" in parents.getvalue().splitlines()[-1]
    assert root["parent"] is None
    caller = tree.get_parent_event(chosen)
    assert caller
    assert chosen["UID"] in caller["children"]
    children = tree.get_children_events(chosen)
    assert [child["UID"] for child in children[:5]] == chosen["children"][:5]
    assert all(child["cat"] and child["name"] for child in children[:5])
    gpu_events = tree.get_gpu_events(chosen)
    assert [gpu["UID"] for gpu in gpu_events] == chosen.get("gpu_events", [])
    assert all(gpu["name"][:60] and gpu.get("dur", 0) >= 0 for gpu in gpu_events[:5])


# --- tree_perf ---------------------------------------------------------------------------------------------------


@on(*STACKS, *TRAINING[1:])
def test_tree_perf(path: str) -> None:
    analyzer = TreePerfAnalyzer.from_file(source(path))
    timeline = analyzer.get_df_gpu_timeline()
    assert {"type", "time ms", "percent"} <= set(timeline.columns)
    calls = analyzer.get_df_kernel_launchers(include_kernel_details=True)
    assert len(calls.round(2).head()) == 5
    by_name = analyzer.get_df_kernel_launchers_summary(calls)
    total = calls["total_direct_kernel_time"].sum()
    assert by_name["total_direct_kernel_time_sum"].sum() == pytest.approx(total)
    every = analyzer.get_df_kernel_launchers_unique_args(calls, include_pct=True)
    one = analyzer.get_df_kernel_launchers_unique_args(calls, event_name="aten::mm", include_pct=True)
    assert len(one) == (every["name"] == "aten::mm").sum()

    names = dict_cat2names["GEMM"]
    gemm_events = [event for event in analyzer.tree.events if event["name"] in names]
    metrics = analyzer.compute_perf_metrics(gemm_events[0])
    assert {"GFLOPS", "TFLOPS/s", "Data Moved (MB)", "TB/s", "FLOPS/Byte", "Kernel Time (µs)"} <= metrics.keys()
    products = analyzer.build_df_perf_metrics(gemm_events, include_kernel_details=True)
    assert len(products.head())
    summary = analyzer.summarize_df_perf_metrics(products, ["mean"])
    assert summary["name_count"].sum() == len(products)

    for family in ("SDPA", "CONV"):
        names = dict_cat2names[family]
        events = [event for event in analyzer.tree.events if event["name"] in names]
        for bwd in ({}, {"bwd": True}):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # backward ops have no backward pass; calls without one are counted
                frame = analyzer.build_df_perf_metrics(events, **bwd)
                summary = analyzer.summarize_df_perf_metrics(frame, ["mean"])
            assert len(frame) <= len(events)
            assert summary["name_count"].sum() == len(frame)
    for family in ("UnaryElementwise", "BinaryElementwise"):
        names = dict_cat2names[family]
        events = [event for event in analyzer.tree.events if event["name"] in names]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = analyzer.build_df_perf_metrics(events)
        assert analyzer.summarize_df_perf_metrics(frame, ["mean"])["name_count"].sum() == len(frame)


def test_backward_passes_are_found_from_the_forward_ops() -> None:
    analyzer = TreePerfAnalyzer.from_file(source("simulated"))
    forward = [event for event in analyzer.tree.events if event["name"] in dict_cat2names["SDPA"]]
    with pytest.warns(UserWarning, match="have no estimate"):
        frame = analyzer.build_df_perf_metrics(forward, bwd=True)
    assert len(frame)
    assert (frame["Kernel Time (µs)"] > 0).all()


# --- call_stack_analysis -----------------------------------------------------------------------------------------


@on(*STACKS)
def test_call_stack_analysis(path: str) -> None:
    analyzer = TreePerfAnalyzer.from_file(source(path), add_python_func=True)
    calls = analyzer.get_df_kernel_launchers(include_kernel_names=True)
    assert (calls["kernel_names"].map(len) == calls["direct_kernel_count"]).all()
    calls.round(2).head()
    analyzer.get_df_kernel_launchers_summary(calls).round(2).head()
    every = analyzer.get_df_kernel_launchers_unique_args(calls, include_pct=True)
    name = "aten::copy_" if (every["name"] == "aten::copy_").any() else every["name"][0]
    rows = analyzer.get_df_kernel_launchers_unique_args(calls, event_name=name, include_pct=True)
    row = rows.sample(1, random_state=0).iloc[0]
    uid = row["ex_UID"]
    evt = analyzer.tree.get_UID2event(uid)
    with printed() as out:
        root = analyzer.tree.traverse_parents_and_print(
            evt, cpu_op_fields=("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
        )
        analyzer.tree.traverse_subtree_and_print(root)
    assert f"UID: {uid}, " in out.getvalue()
    assert (evt["UID"], evt.get("name", "Unknown")) == (uid, name)
    below = evt["children"]
    assert all(analyzer.tree.get_UID2event(inner).get("name") for inner in below)
    above = evt.get("parent")
    assert analyzer.tree.get_UID2event(above).get("name")


# --- nn_module_view ----------------------------------------------------------------------------------------------


def latency_lines(tree: Any, node: Any, around: float | None = None) -> Iterator[str]:
    """A line per module, read from its event as the notebook reads it."""
    gpu_time = node["GPU Time"]
    share = "" if around is None else f" {gpu_time / around * 100:.2f}%"
    yield f"{node['UID']} {node.get('name', 'Unknown')} {gpu_time:.2f}{share}"
    for inner in node.get("nn_module_children", []):
        yield from latency_lines(tree, tree.get_UID2event(inner), gpu_time)
    if rest := node.get("Non-nn.Module GPU Time"):
        yield f"rest {rest:.2f} {rest / gpu_time * 100:.2f}%"


@on(*STACKS)
def test_nn_module_view(path: str) -> None:
    analyzer = TreePerfAnalyzer.from_file(source(path), add_python_func=True)
    tree = analyzer.tree
    core = source(path)
    some = next(
        node.uid
        for node in core.find(Kind.Module)
        if node.kernels and len(node.modules) > 1 and any(inner.kind is Kind.Module for inner in node.subtree[1:])
    )
    name = tree.get_UID2event(some)["name"]
    event = next(e for e in tree.events if e["name"] == name)
    analyzer.build_nn_module_latency_tree(event)
    inner = analyzer.tree.get_nn_module_children(event)
    assert inner
    assert all(analyzer.tree.get_UID2event(uid)["name"].startswith("nn.Module") for uid in inner)
    outer = analyzer.tree.get_nn_module_parent(event)
    around = analyzer.tree.get_UID2event(outer)
    assert event["UID"] in around["nn_module_children"]
    lines = list(latency_lines(tree, event))
    modules = [node for node in core.node(event["UID"]).subtree if node.kind is Kind.Module]
    assert sum(not line.startswith("rest") for line in lines) == len(modules)
    assert event["GPU Time"] == core.node(event["UID"]).gpu_time.busy / 1000


# --- nn_module_flops_analysis (custom workflows) -----------------------------------------------------------------


def accumulated_flops(analyzer: TreePerfAnalyzer, node: Any) -> tuple[float, list[Any]]:
    """FLOPs of the outermost modelled ops below a node, and the innermost ops without a model."""
    models = compat.PerfModel.op_to_perf_model_class_map
    trace_tree = analyzer.tree
    if node.get("gpu_events") is None:
        return 0, []
    if node.get("cat") == "cpu_op":
        if node["name"] in models:
            return analyzer.compute_perf_metrics(node)["GFLOPS"] * 1e9, []
        inner = trace_tree.get_children_events(node)
        if not any(child.get("cat") == "cpu_op" and child.get("gpu_events") is not None for child in inner):
            return 0, [node]
    total, unknown = 0.0, []
    for child in trace_tree.get_children_events(node):
        flops, left = accumulated_flops(analyzer, child)
        total += flops
        unknown.extend(left)
    return total, unknown


@on("simulated", "tracelens/h100/qwen1.5-0.5b")
def test_nn_module_flops_analysis(path: str) -> None:
    analyzer = TreePerfAnalyzer.from_file(source(path), add_python_func=True)
    linear = next(
        e for e in analyzer.tree.events if e.get("name", "").startswith("nn.Module: Linear") and "gpu_events" in e
    )
    kernels = [analyzer.tree.events_by_uid[uid] for uid in linear.get("gpu_events")]
    times = GPUEventAnalyser(kernels).compute_metrics()
    assert times["busy_time"] == linear["GPU Time"] > 0
    total_flops, unknown = accumulated_flops(analyzer, linear)
    (product,) = [e for e in analyzer.tree.events if e["name"] in ("aten::mm", "aten::addmm")
                  and linear["ts"] <= e["ts"] < linear["t_end"]]  # fmt: skip
    first = 0 if product["name"] == "aten::mm" else 1
    (m, k), (_, n) = product["args"]["Input Dims"][first : first + 2]
    assert total_flops == pytest.approx(2 * m * n * k, rel=0.01)
    assert unknown == []


# --- compare_kernel_launchers ------------------------------------------------------------------------------------


@needs_corpus
def test_compare_kernel_launchers() -> None:
    frames, summaries = {}, {}
    for name, platform in (("A", "h100"), ("B", "mi300")):
        analyzer = TreePerfAnalyzer.from_file(source(f"tracelens/{platform}/bert-small"))
        frames[name] = analyzer.get_df_kernel_launchers()
        summaries[name] = analyzer.get_df_kernel_launchers_summary(frames[name])
        summaries[name]["merge_key"] = summaries[name].apply(lambda row: row["name"], axis=1)
    merged = pd.merge(summaries["A"], summaries["B"], on="merge_key", how="inner", suffixes=("_A", "_B"))
    ratio = merged["total_direct_kernel_time_sum_A"] / merged["total_direct_kernel_time_sum_B"]
    assert len(ratio) == 10
    assert {"name_A", "name_B", "Count_A", "Count_B"} <= set(merged.columns)
    assert (ratio > 0).all()

    keys = ["Input Dims", "Input type", "Input Strides"]
    for op in ("aten::addmm", "aten::clamp_min"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            first = TreePerfAnalyzer.get_df_kernel_launchers_summary_by_shape(frames["A"], op)
            second = TreePerfAnalyzer.get_df_kernel_launchers_summary_by_shape(frames["B"], op)
        merged = pd.merge(first, second, on=keys, suffixes=("_A", "_B"))
        assert len(set(first[keys].apply(lambda row: tuple(row), axis=1))) == len(first)
        assert {"Total Kernel Time (ms)_A", "Total Kernel Time (ms)_B"} <= set(merged.columns)
        assert len(merged) <= len(first)
        assert bool(len(merged)) == (op == "aten::addmm")


# --- roofline_plots ----------------------------------------------------------------------------------------------


@on(*STACKS, *TRAINING[1:])
def test_roofline_plots(path: str) -> None:
    analyzer = TreePerfAnalyzer.from_file(source(path))
    copies = [event for event in analyzer.tree.events if event["name"] == "aten::copy_"]
    events = copies or [event for event in analyzer.tree.events if event["name"] in dict_cat2names["GEMM"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = analyzer.build_df_perf_metrics(events, bwd=False)
    # A picture needs finite logarithms.
    assert math.isfinite(np.log10(max(frame["FLOPS/Byte"]) * 2))
    assert math.isfinite(np.log10(min(frame["FLOPS/Byte"]) / 2))
    assert (frame[["TFLOPS/s", "Data Moved (MB)", "TB/s"]].dropna() > 0).all(axis=None)


# --- gemm_dim_eff ------------------------------------------------------------------------------------------------


@on("simulated", "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/qwen1.5-0.5b")
def test_gemm_dim_eff(path: str) -> None:
    arch = {"num_cus": 304}
    analyzer = TreePerfAnalyzer.from_file(source(path), arch=arch)
    gemm_events = [
        event for event in analyzer.tree.events if event["name"] in ["aten::addmm", "aten::mm", "aten::_scaled_mm"]
    ]
    products = analyzer.build_df_perf_metrics(gemm_events, include_kernel_names=True, detail_level=1)
    assert len(products) == len(gemm_events)
    assert products["kernel_names"].map(len).min() >= 1
    assert "Pct Roofline" not in products
    told = products.dropna(subset=["param: tile_eff"])
    assert len(told) > 0.9 * len(gemm_events)
    for _, row in told.iterrows():
        across = math.ceil(row["param: N"] / row["param: mt_m"])
        down = math.ceil(row["param: M"] / row["param: mt_n"])
        assert row["param: num_tiles"] == across * down
        assert 0 < row["param: tile_eff"] <= 1
        if not pd.isna(row["param: wq_eff"]):
            assert row["param: dim_eff"] == pytest.approx(row["param: tile_eff"] * row["param: wq_eff"])
    summary = analyzer.summarize_df_perf_metrics(products, ["mean"])
    assert summary["name_count"].sum() == len(products)


# --- perf_model_without_trace ------------------------------------------------------------------------------------

HIDDEN, FFN, HEADS, KV_HEADS, WIDTH, VOCABULARY, LAYERS = 8192, 28672, 64, 8, 128, 128256, 80
LINEARS = {
    "q": (HIDDEN, HEADS * WIDTH), "k": (HIDDEN, KV_HEADS * WIDTH), "v": (HIDDEN, KV_HEADS * WIDTH),
    "o": (HEADS * WIDTH, HIDDEN), "gate": (HIDDEN, FFN), "up": (HIDDEN, FFN), "down": (FFN, HIDDEN),
    "head": (HIDDEN, VOCABULARY),
}  # fmt: skip


def least_us(flops: float, moved: float) -> float:
    return max(flops / 708e12, moved / 5300e9) * 1e6


@pytest.mark.parametrize(("S_q", "S_kv", "ms"), [(1, 2048, 26.36), (2048, 2048, 409.85)])
def test_perf_model_without_trace(S_q: int, S_kv: int, ms: float) -> None:  # noqa: N803
    """Llama 3 70B on an MI300X, one token and 2048 of them: the notebook says 26.36 and 409.85 ms."""
    total = 0.0
    for name, (K, N) in LINEARS.items():  # noqa: N806
        flops = GEMM.flops_func(S_q, N, K, False)
        bytes_ = GEMM.bytes_func(S_q, N, K, False, 2, 2, 2, 2)
        total += least_us(flops, bytes_) * (1 if name == "head" else LAYERS)
    f = SDPA.flops_func(1, S_q, HEADS, S_kv, KV_HEADS, WIDTH, WIDTH, S_q == S_kv)
    b = SDPA.bytes_func(1, S_q, HEADS, S_kv, KV_HEADS, WIDTH, WIDTH, S_q == S_kv, 2)
    total += least_us(f, b) * LAYERS
    assert round(total / 1000, 2) == ms


def test_formulas_without_trace() -> None:
    for m in np.unique(np.logspace(0, 5, 8, dtype=int)):
        assert GEMM.flops_func(m, 16, 32, True) == 2 * int(m) * 16 * 32 + int(m) * 16
    assert GEMM.bytes_func(2, 3, 4, True, 1, 2, 4, 8) == 2 * 4 + 4 * 3 * 2 + 3 * 4 + 2 * 3 * 8
    assert GEMM.bytes_func(2, 3, 4, False, 1, None, 4, 8) is None
    shape = 2, 64, 8, 64, 2, 128, 128
    forward = SDPA.flops_func(*shape, False)
    assert forward == 2 * 2 * 2 * 8 * 64 * 64 * 128
    assert SDPA.flops_func(*shape, True) == forward / 2
    assert SDPA.bytes_func(*shape, True, 1) == 2 * 64 * 128 * (8 + 2 + 2 + 8)
    assert SDPA.bytes_func(*shape, True, None) is None
    fused = SDPA.flops_bwd_func(*shape, True, flash_impl=True)
    assert fused - SDPA.flops_bwd_func(*shape, True, flash_impl=False) == forward / 4
    assert SDPA.bytes_bwd_func(*shape, True, 2) == 2 * SDPA.bytes_func(*shape, True, 2)


# --- nccl_analyser_example ---------------------------------------------------------------------------------------


def test_nccl_analyser(tmp_path: Path) -> None:
    job = simulate(ranks=2, steps=2, layers=1, seed=7)
    my_nccl_analyser = NcclAnalyser(write(job, tmp_path), 2)
    df_summary = my_nccl_analyser.build_df_summary_nccl_implicit_sync_cat(agg_metrics=["mean"])
    df_long = my_nccl_analyser.build_df_long()
    df_implicit_sync_cat = my_nccl_analyser.build_df_nccl_implicit_sync_cat()
    df_implicit_sync_cat_detailed = my_nccl_analyser.build_df_nccl_implicit_sync_cat(detailed=True)
    assert my_nccl_analyser.build_df_nccl_all2allv().empty
    assert df_long["rank"].value_counts().tolist() == [len(df_long) // 2] * 2
    assert df_summary["count"].sum() == len(df_implicit_sync_cat) == len(df_implicit_sync_cat_detailed) > 0
    first = df_implicit_sync_cat_detailed.iloc[0]
    of_first = df_long[df_long["collective_id"] == first["collective_id"]]
    assert first["comm_latency"] == of_first["dur"].min()
    assert first["skew in start time"] == pytest.approx(of_first["ts"].max() - of_first["ts"].min(), abs=0.002)


# --- names -------------------------------------------------------------------------------------------------------


def test_timeline_of_some_gpu_events() -> None:
    analyzer = TreePerfAnalyzer.from_file(source("simulated"), include_unlinked_kernels=True)
    everything = [event for event in analyzer.tree.events if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    found = GPUEventAnalyser(everything)
    frame, whole = found.get_breakdown_df(), analyzer.get_df_gpu_timeline()
    assert frame["type"].tolist() == whole["type"].tolist()
    assert frame["time ms"].tolist() == pytest.approx(whole["time ms"].tolist())
    assert frame["percent"].tolist() == pytest.approx(whole["percent"].tolist())
    plain = GPUEventAnalyser([dict(event) for event in everything]).compute_metrics(micro_idle_thresh_us=5)
    assert plain == pytest.approx(found.compute_metrics(micro_idle_thresh_us=5))
    assert {"micro_idle_time", "macro_idle_time"} <= plain.keys()
    assert set(GPUEventAnalyser([]).compute_metrics().values()) == {0.0}
    other = TreePerfAnalyzer.from_file({"traceEvents": []}).tree.events
    with pytest.raises(AnalysisError, match="several trees"):
        GPUEventAnalyser([*everything, {"cat": "kernel"}, *other])
