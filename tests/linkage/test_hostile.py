"""Ids that are not there and things that are no ids: one line each, with what there is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import mm_pair
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mm_pair import MM, START
from profiles import examples

from tracelens_graph.errors import AnalysisError, NodeNotFoundError, NotATraceError, TraceLensGraphError
from tracelens_graph.linkage import (
    get_gpu_op_identifier,
    kernel_metadata_scrape,
    kernel_to_op_tracing,
    load_trace,
    op_to_kernel_tracing,
    operation_metadata_scrape,
)
from tracelens_graph.schema import GPU_KINDS
from tracelens_graph.schema.categories import KIND_OF_CATEGORY

CPU, GPU = load_trace(mm_pair.execution_trace()), load_trace(mm_pair.kineto())
ODD: list[Any] = [None, "x", "5", 5.0, True, [5], {}, b"5", math.nan, object(), -1, 2**70, 10**5000]
WITHOUT_KERNELS = load_trace({"traceEvents": mm_pair.kineto()["traceEvents"][:4]})


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_odd_ids_of_nodes(odd: Any) -> None:
    for ask in (operation_metadata_scrape, lambda one, cpu: op_to_kernel_tracing(one, cpu, GPU)):
        with pytest.raises(NodeNotFoundError) as caught:
            ask(odd, CPU)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "odd",
    [*ODD, (1, 2, 3), (1, 2, 3, 4, 5, 6), "1234", (None,) * 4, (1, 2, "x", 4)],
    ids=lambda odd: type(odd).__name__,
)
def test_odd_identifiers(odd: Any) -> None:
    for ask in (kernel_metadata_scrape, lambda one, gpu: kernel_to_op_tracing(one, gpu, CPU)):
        with pytest.raises(NodeNotFoundError) as caught:
            ask(odd, GPU)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner, inner, inner) | st.dictionaries(st.text(), inner),
)


@examples(30)
@given(ANYTHING)
def test_anything_gets_an_answer_or_one_line(odd: Any) -> None:
    asked: list[Callable[[], Any]] = [
        lambda: operation_metadata_scrape(odd, CPU),
        lambda: kernel_metadata_scrape(odd, GPU),
        lambda: kernel_metadata_scrape((odd,) * 4, GPU),
        lambda: kernel_metadata_scrape((1.0, 1.0, odd, odd), GPU),
        lambda: get_gpu_op_identifier(odd),
        lambda: get_gpu_op_identifier({"cat": "kernel", "ts": odd, "dur": odd, "tid": odd, "args": odd}),
        lambda: get_gpu_op_identifier({"cat": "kernel", "ts": 1, "args": {"stream": odd, "External id": odd}}),
        lambda: get_gpu_op_identifier({"identifier": odd}),
    ]
    for ask in asked:
        assert "\n" not in _complaint(ask)


def _complaint(ask: Callable[[], Any]) -> str:
    try:
        ask()
    except TraceLensGraphError as error:
        return str(error)
    return ""


def test_ids_that_are_not_there_say_what_there_is() -> None:
    with pytest.raises(NodeNotFoundError, match="no node has id 99; ids go from 1 to 5, with gaps$"):
        operation_metadata_scrape(99, CPU)
    with pytest.raises(NodeNotFoundError, match=r"has no event of node 2 .*: 2 of 2 nodes have one, joined by Record"):
        op_to_kernel_tracing(2, CPU, GPU)
    with pytest.raises(NodeNotFoundError, match=r"^no GPU event has timestamp 5.0, .*; the nearest one has 1170.5, "):
        kernel_metadata_scrape((5, 7309.66, 7, 9), GPU)
    with pytest.raises(
        NodeNotFoundError, match=r"^no GPU event has .*; the one at that time has 1170.5, 7309.66, 7, 9$"
    ):
        kernel_metadata_scrape((START + 170, 7309.66, 8, 9), GPU)
    with pytest.raises(NodeNotFoundError, match="; the trace has no GPU events$"):
        kernel_metadata_scrape((5, 7309.66, 7, 9), WITHOUT_KERNELS)


def test_events_that_are_no_gpu_events() -> None:
    with pytest.raises(NodeNotFoundError, match="'cpu_op' is no GPU event"):
        get_gpu_op_identifier(mm_pair.kineto()["traceEvents"][1])
    with pytest.raises(NodeNotFoundError, match=r"event 1 \(aten::mm\) is of kind Op, which is not GPU work"):
        get_gpu_op_identifier(GPU.find("Op")[0])


@pytest.mark.parametrize("category", KIND_OF_CATEGORY)
@pytest.mark.parametrize("name", [mm_pair.KERNEL, "dma_request", "event_wait"])
def test_an_event_is_gpu_work_where_its_node_is(category: str, name: str) -> None:
    event = mm_pair.kineto()["traceEvents"][-1] | {"cat": category, "name": name}
    node = load_trace({"traceEvents": [event]}).node(0)
    if node.kind in GPU_KINDS:
        assert get_gpu_op_identifier(event)[:3] == get_gpu_op_identifier(node)[:3]
    else:
        with pytest.raises(NodeNotFoundError, match=f"'{category}' is no GPU event"):
            get_gpu_op_identifier(event)


def test_traces_in_the_wrong_place() -> None:
    kernel = (START + 170.0, 7309.66, 7, 9)
    with pytest.raises(AnalysisError, match="is a profiler's trace; name the execution trace"):
        operation_metadata_scrape(MM, GPU)
    with pytest.raises(NotATraceError, match="execution trace"):
        operation_metadata_scrape(MM, mm_pair.kineto())
    with pytest.raises(AnalysisError, match="is an execution trace; name the profiler's trace"):
        kernel_metadata_scrape(kernel, CPU)
    with pytest.raises(NotATraceError, match="is a PyTorch execution trace"):
        kernel_metadata_scrape(kernel, mm_pair.execution_trace())
    with pytest.raises(NotATraceError):
        op_to_kernel_tracing(MM, None, GPU)


def test_times_that_lost_digits_still_find_their_event() -> None:
    trace = mm_pair.kineto()
    for event in trace["traceEvents"]:
        event["ts"] += 1_700_000_000_000_000
    core = load_trace(json.dumps(trace).encode())
    (kernel,) = core.find("Kernel")
    assert kernel_metadata_scrape(get_gpu_op_identifier(kernel.event), core)["uid"] == kernel.uid
    assert kernel_metadata_scrape(get_gpu_op_identifier(kernel), core)["uid"] == kernel.uid


def test_an_identifier_that_two_events_share_takes_a_uid() -> None:
    trace = mm_pair.kineto()
    other = dict(trace["traceEvents"][4], pid=1)
    other["args"] = other["args"] | {"device": 1}
    trace["traceEvents"].append(other)
    core = load_trace(trace)
    identifier = get_gpu_op_identifier(other)
    with pytest.raises(NodeNotFoundError, match="^2 GPU events have .*: uids 4, 5; add a uid as fifth item$"):
        kernel_metadata_scrape(identifier, core)
    assert kernel_metadata_scrape((*identifier, 5), core)["device"] == 1
    with pytest.raises(NodeNotFoundError, match="^no GPU event has"):
        kernel_metadata_scrape((*identifier, 3), core)
