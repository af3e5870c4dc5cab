"""The roofline of a page: where points and roofs stand, and what is not drawn."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from extended import with_models
from handmade import span

from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, Figure, Source
from tracelens_graph.perf.model import OpModel
from tracelens_graph.reports.html.roofline import roofline
from tracelens_graph.reports.html.tables import Texts
from tracelens_graph.tables.table import Table

FIGURES = {"matrix_bf16": 10.0, "vector_fp32": 8.0, "memory_bandwidth_gbps": 1000.0}
TOY = Architecture("toy", "Toy <b>", "", {name: Figure(value, Source()) for name, value in FIGURES.items()})


def always(cost: Cost) -> OpModel:
    return OpModel(lambda arguments, context: cost, "GEMM")


MODELS: Mapping[str, OpModel] = {
    "product": always(Cost(4_000_000_000, 40_000_000, "matrix", "bf16")),
    "sum": always(Cost(10_000_000, 40_000_000, "vector", "fp32")),
    "copy": always(Cost(0, 40_000_000, "vector", "fp32")),
}


def ops_of(*names: str) -> Table:
    """Operations whose kernels take 1 ms each."""
    events = []
    for number, name in enumerate(names, 1):
        at = number * 2000.0
        events += [
            span("cpu_op", name, at, 100, Input_Dims=[[8, 16]], Input_type=["c10::BFloat16"]),
            span("cuda_runtime", "cudaLaunchKernel", at + 1, 5, correlation=number),
            span("kernel", name, at + 50, 1000, 0, 7, correlation=number, device=0, stream=7),
        ]
    return unified_perf_summary(with_models(load_core(events), MODELS), arch=TOY)


def test_points_and_roofs() -> None:
    texts = Texts()
    found = roofline(ops_of("product", "sum", "sum", "copy", "unheard of"), TOY, texts)
    assert found is not None
    assert (found["device"], found["bandwidth"], found["more"], found["unplaced"]) == ("Toy <b>", 1000.0, 0, 1)
    roofs = [(roof["label"], roof["tflops"], roof["ridge"]) for roof in found["roofs"]]
    assert roofs == [("matrix_bf16", 10.0, 10.0), ("vector_fp32", 8.0, 8.0)]
    points = {texts.listed[point["name"]]: point for point in found["points"]}
    assert points.keys() == {"product", "sum"}
    product, total = points["product"], points["sum"]
    assert (product["x"], product["y"], product["us"], product["class"]) == (
        pytest.approx(100), pytest.approx(4), pytest.approx(1000), "other",
    )  # fmt: skip
    assert (product["bound"], product["roof"], product["won_us"]) == ("compute", pytest.approx(40), pytest.approx(600))
    assert (total["bound"], total["calls"], total["won_us"]) == ("memory", 2, pytest.approx(2000 - 2 * 40))
    assert texts.listed[product["args"]] == "[8, 16]"
    assert product["uid"] == 0


def test_without_a_device_there_is_none() -> None:
    ops = ops_of("product")
    assert roofline(ops, None, Texts()) is None
    assert roofline(None, TOY, Texts()) is None
