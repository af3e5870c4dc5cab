"""Communication is communication, whichever library its kernels are of, and where nothing names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span

from corpus import kineto_traces, loaded, needs_corpus, parametrize
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.kernels.kernels import kernel_summary
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.rank_collectives import GpuTime, RankCollectives
from tracelens_graph.analyses.ranks.rank_tables import times_table
from tracelens_graph.analyses.report.report_tables import ReportOptions
from tracelens_graph.analyses.shared.gpu_work import (
    COMMUNICATION,
    COMPUTATION,
    MEMCPY,
    as_tracelens_counts,
    communication_names,
    gpu_classes,
)
from tracelens_graph.analyses.shared.unnamed_communication import unnamed_communication
from tracelens_graph.compat.sheets import Asked, sheets
from tracelens_graph.graph.collectives import kernels_of_collectives
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edited import renamed
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.tables.names import short_name
from tracelens_graph.utils.arrays import Rows

KERNELS = {
    "MSCCL++": "void mscclpp::allreduce7<__half>(mscclpp::LLPacket*)",
    "oneCCL": "oneccl_allreduce_small_kernel(void*)",
    "HCCL": "hcom_allReduce__747_0_1",
    "DeepEP": "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16>(int4*)",
    "MORI": "void mori::moe::EpCombineIntraNodeKernel<hip_bfloat16>(x)",
    "NVSHMEM": "void nvshmemi_transfer_rma_nbi<(threadgroup_t)1>(void*, void*)",
    "rocSHMEM": "rocshmem_putmem_kernel(void*)",
    "userbuffers": "userbuffers_fp16_sum_inplace_gpu_mc<8>(int, int)",
    "custom all-reduce": "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "quick reduce": "void quickreduce::allreduce_prototype_twoshot<Codec>(__half const*)",
    "TensorRT-LLM": "void tensorrt_llm::kernels::twoShotAllReduceKernel<__nv_bfloat16, 8>(P)",
    "FlashInfer": "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8>(P)",
    "symmetric memory": "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float, 16>(x)",
    "multimem": "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(x)",
}
"""Library -> a typical kernel of it."""

TABLES = (
    "gpu_timeline", "exposed_communication", "step_summary", "idle_causes", "idle_gaps", "coll_analysis",
    "unified_perf_summary", "path_to_python",
)  # fmt: skip


@pytest.fixture
def trained(corpus: Path) -> Core:
    """A training step of one of eight ranks, with NCCL's all-reduce."""
    return loaded(corpus / "tracelens/mi300/resnet-ddp-checkpointing.json.gz")


def communicating(core: Core) -> list[int]:
    rows = core.gpu_rows
    uids: list[int] = core.columns.uid[rows[gpu_classes(core, rows) == COMMUNICATION]].tolist()
    return uids


def under(name: str, core: Core) -> Core:
    """The trace with another name for its communication kernels."""
    return renamed(core, dict.fromkeys(communicating(core), name))


def figures(core: Core) -> dict[str, Any]:
    """What a trace shows of its communication, the name of its kernel left out."""
    (name,) = communication_names(core)
    shown = {one: str(list(QUESTIONS[one](core).records())) for one in TABLES}
    shown["verdict"] = str([(one.topic, one.evidence, one.advice) for one in verdict(core)])
    busy = GpuTime.of(whole_window(core)).computing
    return {key: text.replace(name, "KERNEL") for key, text in shown.items()} | {"computing": str(busy)}


@needs_corpus
@pytest.mark.parametrize("library", KERNELS)
def test_figures_do_not_depend_on_the_library(trained: Core, library: str) -> None:
    other = under(KERNELS[library], trained)
    assert communicating(other) == communicating(trained)
    assert figures(other) == figures(trained)
    assert str(verdict(other)[0].evidence["kind"]) == "comm.exposed"


@needs_corpus
def test_arguments_of_a_collective_suffice(trained: Core) -> None:
    other = under("my_kernel(float*)", trained)
    recorded = set(trained.rows_of(trained.collective_args).tolist())
    rows = trained.gpu_rows[np.isin(trained.columns.uid[trained.gpu_rows], communicating(trained))]
    owner = trained.columns.owner[rows]
    known = [row in recorded or own in recorded for row, own in zip(rows.tolist(), owner.tolist(), strict=True)]
    assert communicating(other) == trained.columns.uid[rows[known]].tolist()


@needs_corpus
def test_tracelens_layout_counts_as_tracelens_does(trained: Core) -> None:
    def computing(core: Core) -> float:
        table = sheets(whole_window(core), Asked(ReportOptions(linked_only=True), unlinked=True))["gpu_timeline"]
        return float(dict(zip(table["type"], table["time ms"], strict=True))["computation_time"])

    other = under(KERNELS["quick reduce"], trained)
    assert computing(under(KERNELS["custom all-reduce"], trained)) == computing(trained)
    assert computing(other) > 2 * computing(trained)


def kernel(name: str, stream: int, start: float, duration: float, blocks: int) -> dict[str, Any]:
    args = {"device": 0, "stream": stream, "grid": [blocks, 1, 1], "block": [512, 1, 1]}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": start,
        "dur": duration,
        "args": args,
    }


GEMMS = ("sm90_gemm_64x64_tn", "sm90_gemm_128x64_nn", "vectorized_elementwise_kernel<add>")


def beside_computation(*families: tuple[str, int, float, int], op: str = "", ranks: int | None = None) -> Graph:
    """A device of 132 multiprocessors computes on stream 7; families are (name, stream, duration, blocks).

    An op, if one is given, launches the kernels of the families; the number of ranks is recorded, if it is given.
    """
    events = [kernel(name, 7, 10 * i, 9, 500) for i, name in enumerate(GEMMS * 200)]
    events += [
        kernel(name, stream, 500 + 1200 * call + 600 * place, duration, blocks)
        for place, (name, stream, duration, blocks) in enumerate(families)
        for call in range(3)
    ]
    for number, one in enumerate(events, 1):
        one["args"]["correlation"] = number
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "dur": 1}
    events += [{**launch, "ts": one["ts"] - 5, "args": {"correlation": one["args"]["correlation"]}} for one in events]
    first = len(GEMMS) * 200
    events += [span("cpu_op", op, one["ts"] - 6, 4, 1, 1) for one in events[first : len(events) // 2] if op]
    job = {} if ranks is None else {"distributedInfo": {"rank": 0, "world_size": ranks}}
    trace = {"traceEvents": events, "deviceProperties": [{"id": 0, "numSms": 132}], **job}
    return load_core(json.dumps(trace).encode())


@pytest.mark.parametrize(
    ("families", "found"),
    [
        pytest.param([("mystery", 16, 500, 20)], {"mystery"}, id="long, few blocks, a stream of its own"),
        pytest.param([("mystery", 16, 500, 200)], set(), id="fills the device"),
        pytest.param([("mystery", 16, 20, 20)], set(), id="short"),
        pytest.param([("mystery", 7, 500, 20)], set(), id="on the stream that computes"),
        pytest.param([("mystery", 16, 500, 20), (GEMMS[0], 16, 500, 20)], set(), id="computation on its stream"),
        pytest.param([("fused_adam", 16, 500, 20)], set(), id="of a known family"),
        pytest.param(
            [("x::TokenDispatch<8>", 16, 20, 200), ("x::TokenCombine<8>", 16, 20, 200)],
            {"x::TokenDispatch<8>", "x::TokenCombine<8>"},
            id="there and back",
        ),
        pytest.param([("x::TokenDispatch", 16, 20, 200)], set(), id="there only"),
        pytest.param(
            [("moe_dispatch", 7, 20, 200), ("moe_combine", 7, 20, 200)],
            set(),
            id="permuted on the stream that computes",
        ),
        pytest.param(
            [("y_put_kernel", 16, 20, 200), ("y_get_kernel", 16, 20, 200)],
            {"y_put_kernel", "y_get_kernel"},
            id="one-sided",
        ),
    ],
)
def test_communication_without_a_known_name(families: list[tuple[str, int, float, int]], found: set[str]) -> None:
    core = beside_computation(*families)
    assert communication_names(core) == found
    category = {
        row["Kernel name"]: row["kernel_category"] for row in kernel_summary(core, kernel_categories=True).records()
    }
    assert all(category[name] == "Communication" for name in found)
    assert communication_names(core.lean({"owner", "device", "stream"})) == found
    assert not communication_names(core.lean({"owner"}))


@pytest.mark.parametrize(
    ("op", "ranks", "is_one"),
    [("", None, True), ("", 8, True), ("mine::exchange", 8, True), ("", 1, False), ("aten::linalg_eigh", 8, False)],
)
def test_neither_ops_of_pytorch_nor_single_ranks_communicate_unnamed(op: str, ranks: int | None, is_one: bool) -> None:
    core = beside_computation(("sytrd_lower_kernel", 16, 500, 20), op=op, ranks=ranks)
    assert communication_names(core) == ({"sytrd_lower_kernel"} if is_one else set())
    named = beside_computation(("ncclDevKernel_AllReduce", 16, 500, 20), op=op, ranks=ranks)
    assert communication_names(named) == {"ncclDevKernel_AllReduce"}
    on_main = beside_computation(("mystery<8>", 7, 500, 20), op=op, ranks=ranks)
    assert ("unknown_kernels" in {one.topic for one in verdict(on_main)}) == is_one


def test_the_verdict_says_what_is_recognised_without_a_name() -> None:
    families = [("mystery", 16, 8000, 20), ("ncclDevKernel_AllReduce", 20, 8000, 20)]
    for unnamed, given in ((None, families[1:]), (50, families), (100, families[:1])):
        (one,) = [one for one in verdict(beside_computation(*given)) if one.topic == "exposed_communication"]
        assert one.evidence.get("unnamed_percent") == (None if unnamed is None else pytest.approx(unnamed))
        assert one.evidence.get("unnamed") == (None if unnamed is None else "mystery")
        assert ("not by a known name" in one.text) == (unnamed is not None)


def test_times_of_ranks_add_up_with_communication_that_is_no_collective() -> None:
    traces = TraceSet.of({"rank0": beside_computation(("mystery", 16, 500, 20))})
    figures = Figures(MatchedCollectives([RankCollectives.of(one) for one in traces]))
    ms = {row["time"]: row["mean_ms"] for row in times_table(figures).records()}
    assert ms["communication"] == pytest.approx(1.5)
    assert ms["copying"] == 0
    assert ms["computing"] + ms["exposed"] + ms["idle"] == pytest.approx(ms["step"])


@pytest.mark.parametrize(
    ("family", "is_named"),
    [
        pytest.param(("mystery<8>", 7, 500, 20), True, id="few blocks"),
        pytest.param(("mystery<8>", 7, 500, 0), True, id="blocks unknown"),
        pytest.param(("mystery<8>", 7, 500, 2000), False, id="more blocks than the device can hold at once"),
        pytest.param(("x::token_dispatch<8>", 7, 500, 2000), True, id="named as an exchange"),
        pytest.param(("mystery<8>", 7, 100, 20), False, id="little time"),
        pytest.param(("mystery<8>", 16, 500, 20), False, id="recognised"),
    ],
)
def test_a_large_unknown_family_is_named(family: tuple[str, int, float, int], is_named: bool) -> None:
    found = [one for one in verdict(beside_computation(family)) if one.topic == "unknown_kernels"]
    assert [one.evidence["name"] for one in found] == [family[0]][:is_named]
    assert all(f"{short_name(family[0])}" in one.text and "21.7 %" in one.text for one in found)


def test_an_unknown_family_is_named_once() -> None:
    found = [one for one in verdict(beside_computation(("mystery<8>", 7, 500, 20))) if "mystery" in one.text]
    assert [one.topic for one in found] == ["unknown_kernels"]


def nameless(core: Core, rows: Rows) -> Core:
    """The trace without what names some kernels: their names, ops and arguments."""
    c = core.columns
    other = renamed(
        core, {uid: f"k{code}" for uid, code in zip(c.uid[rows].tolist(), c.name[rows].tolist(), strict=True)}
    )
    owner = c.owner.copy()
    owner[rows] = -1
    return changed(other, columns=Columns({**dict(other.columns), "owner": owner}), collective_args={})


@parametrize("path", kineto_traces())
def test_computation_without_names_is_no_communication(path: Path) -> None:
    core = loaded(path)
    kernels = rows_of_kind(core.columns, (Kind.Kernel,))
    named = np.concatenate(kernels_of_collectives(core))
    assert not len(unnamed_communication(core, named))
    found = unnamed_communication(nameless(core, kernels), named[:0])
    assert np.isin(found, named).all()


@needs_corpus
@pytest.mark.parametrize(
    "trace",
    ["dlrm-8-ranks/kineto/rank3", "hta/two-of-128-ranks/rank-0", "hta/resnet-ddp-nccl-args",
     "hta/queue-length-cuda-graph", "tracelens/mi300/resnet-ddp-checkpointing"],
)  # fmt: skip
def test_most_collectives_are_found_without_names(corpus: Path, trace: str) -> None:
    core = loaded(corpus / f"{trace}.json.gz")
    named = np.concatenate(kernels_of_collectives(core))
    other, ns = nameless(core, named), core.columns.dur_ns
    found = other.gpu_rows[gpu_classes(other, other.gpu_rows) == COMMUNICATION]
    assert np.isin(found, named).all()
    assert ns[found].sum() > 0.7 * ns[named].sum()


@needs_corpus
def test_foreign_recordings_have_no_other_communication(corpus: Path) -> None:
    paths = sorted((corpus / "external").rglob("*trace*.json.gz")) + sorted(
        (corpus / "external").rglob("*decode.json.gz")
    )
    assert len(paths) > 10
    assert not any(communication_names(load_core(path)) for path in paths)


def test_kernels_that_copy_calls_launch_are_copies_all_of_a_name_or_none() -> None:
    """roctracer names them in many ways; one call is named otherwise, one is not in the trace."""

    def work(number: int, call: str, kernel: str) -> list[dict[str, Any]]:
        on_gpu = span("kernel", kernel, 100.0 * number, 10, 0, 7, device=0, stream=7, correlation=number)
        return [span("hip_runtime", call, 10.0 * number, 1, correlation=number), on_gpu]

    core = load_core([
        *work(1, "hipMemcpyWithStream", "CopyDeviceToDevice"), *work(2, "hipMemcpyAsync", "CopyDeviceToDevice"),
        *work(3, "hipExtLaunchKernel", "CopyDeviceToDevice"), work(4, "", "CopyDeviceToDevice")[1],
        *work(5, "hipLaunchKernel", "gemm"), *work(6, "hipLaunchKernel", "gemm"), *work(7, "hipMemcpyAsync", "gemm"),
    ])  # fmt: skip
    names = [core.names[code] for code in core.columns.name[core.gpu_rows].tolist()]
    does = dict.fromkeys(zip(names, gpu_classes(core, core.gpu_rows).tolist(), strict=True))
    assert list(does) == [("CopyDeviceToDevice", MEMCPY), ("gemm", COMPUTATION)]
    theirs = as_tracelens_counts(core.everything).core
    assert set(gpu_classes(theirs, theirs.gpu_rows).tolist()) == {COMPUTATION}
