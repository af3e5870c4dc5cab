"""What is suggested for single operations."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from handmade import small_trace, span

from tracelens_graph.analyses.diagnosis.families import op_advice
from tracelens_graph.analyses.diagnosis.finding import ADVICE, Finding
from tracelens_graph.analyses.ops.top_ops import top_ops
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

COMPUTES = Finding("headline", "", {"kind": "compute.gemm", "computation_percent_of_span": 80.0})


@cache
def training() -> Core:
    (rank,) = simulate(seed=0).ranks[:1]
    return load_core(rank.trace)


def advised(core: Core, *findings: Finding) -> dict[str, str]:
    names = list(top_ops(core, top=99)["name"])
    return dict(zip(names, op_advice(core, findings, names), strict=True))


def test_an_op_gets_what_is_said_of_its_kernels() -> None:
    found = advised(training(), COMPUTES)
    assert found["aten::mm"] == ADVICE["gemm_tuning"]
    assert found["aten::_foreach_mul_"] == ADVICE["fusion"]


def test_a_finding_on_its_kernels_says_it_first() -> None:
    about = Finding("kernels", "", {"kind": "compute.gemm", "ms": 1.0}, advice=("channels_last", "fusion"))
    assert advised(training(), COMPUTES, about)["aten::mm"] == ADVICE["channels_last"]


@pytest.mark.parametrize(
    "evidence", [{}, {"kind": "host.launches", "computation_percent_of_span": 80.0}, {"kind": "compute.gemm"}]
)
def test_kernels_are_not_tuned_where_something_else_takes_the_time(evidence: dict[str, str | float]) -> None:
    assert set(advised(training(), replace(COMPUTES, evidence=evidence)).values()) == {""}
    assert set(advised(training()).values()) == {""}


def test_communication_and_copies() -> None:
    gpu = {"device": 0, "stream": 7}
    events = []
    for at, (op, kernel, cat) in enumerate(
        [
            ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel"),
            ("aten::copy_", "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"),
            ("aten::to", "Memcpy DtoH (Device -> Pageable)", "gpu_memcpy"),
        ],
        1,
    ):
        events += [
            span("cpu_op", op, 100 * at, 50),
            span("cuda_runtime", "cudaLaunchKernel", 100 * at + 1, 5, correlation=at),
            span(cat, kernel, 100 * at + 20, 30, 0, 7, correlation=at, **gpu),
        ]
    topics = {"exposed_communication": "overlap", "host_to_device_copy": "pin_memory"}
    findings = [Finding(topic, "", {"ms": 1.0}, advice=(name,)) for topic, name in topics.items()]
    found = advised(load_core(events), COMPUTES, *findings)
    assert found == {
        "c10d::allreduce_": ADVICE["overlap"], "aten::copy_": ADVICE["pin_memory"], "aten::to": "",
    }  # fmt: skip


def test_what_no_op_owns_and_what_is_not_there() -> None:
    core = load_core(small_trace())
    assert op_advice(core, [COMPUTES], ["(no launch in trace)", "nothing of the kind"]) == ["", ""]
