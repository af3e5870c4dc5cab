"""What analyses add to the full graph: categories, costs, what kernel names tell, who is modelled by what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade import span
from hypothesis import given
from made_traces import traces

import tracelens_graph as tlg
from corpus import chosen_traces, parametrize
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import CONTEXT_EDGES, CONTEXT_KINDS

NVJET = "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT"


@pytest.fixture(scope="module")
def full() -> Any:
    shapes = {"Input_Dims": [[8, 16], [16, 4]], "Input_type": ["c10::BFloat16", "c10::BFloat16"]}
    return tlg.load(
        [
            span("cpu_op", "aten::linear", 0, 20),
            span("cpu_op", "aten::mm", 1, 10, **shapes),
            span("cuda_runtime", "cudaLaunchKernel", 2, 1, correlation=1),
            span("kernel", NVJET, 50, 5, pid=0, tid=7, device=0, stream=7, correlation=1),
            span("cpu_op", "aten::mm", 30, 10),
            span("cuda_runtime", "cudaLaunchKernel", 31, 1, correlation=2),
            span("kernel", "gemm", 60, 5, pid=0, tid=7, device=0, stream=7, correlation=2),
        ]
    ).full


def test_categories(full: Any) -> None:
    assert full.has_edge(1, "category:op:GEMM", "IN_CATEGORY")
    assert not full.has_edge(0, "category:op:GEMM", "IN_CATEGORY")
    (name,) = [end for _, end, kind in full.out_edges(3, keys=True) if kind == "NAMED"]
    assert full.has_edge(name, "category:kernel:GEMM", "IN_CATEGORY")
    assert full.nodes[name]["tile_m"] == 320


def test_costs_stand_on_signatures(full: Any) -> None:
    of = {op: end for op in (1, 4) for _, end, kind in full.out_edges(op, keys=True) if kind == "HAS_SIGNATURE"}
    known, unknown = full.nodes[of[1]], full.nodes[of[4]]
    assert (known["flops"], known["moved_bytes"], known["compute_spec"]) == (
        2 * 8 * 16 * 4,
        2 * (128 + 64 + 32),
        "matrix_bf16",
    )
    assert "flops" not in unknown
    assert "not recorded" in unknown["no_model"]


def test_each_event_is_modelled_by_one_op(full: Any) -> None:
    pairs = {(event, op) for event, op, kind in full.edges(keys=True) if kind == "MODELLED_BY"}
    assert pairs == {(3, 1), (6, 4)}


def check(graph: Any) -> None:
    full = graph.full
    ends = {edge.name: edge for edge in CONTEXT_EDGES}
    modelled = [event for event, _, kind in full.edges(keys=True) if kind == "MODELLED_BY"]
    assert len(modelled) == len(set(modelled))
    for _, end, kind in full.edges(keys=True):
        if kind in ("IN_CATEGORY", "MODELLED_BY"):
            assert full.nodes[end]["kind"] == ends[kind].target
    assert {data["kind"] for node, data in full.nodes(data=True) if isinstance(node, str)} <= CONTEXT_KINDS.keys()


@given(traces())
def test_made_traces(trace: dict[str, object]) -> None:
    check(tlg.TraceGraph(load_core(trace)))


@parametrize("path", chosen_traces())
def test_real_traces(path: Path) -> None:
    check(tlg.load(path))
