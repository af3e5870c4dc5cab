"""Communication is communication, whichever library its kernels are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus import loaded, needs_corpus
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.ranks.rank_collectives import GpuTime
from tracelens_graph.analyses.report.report_tables import ReportOptions
from tracelens_graph.analyses.shared.gpu_work import (
    COMMUNICATION,
    as_tracelens_counts,
    communication_names,
    gpu_classes,
)
from tracelens_graph.compat.sheets import Asked, sheets
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edited import renamed
from tracelens_graph.graph.window import whole_window

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
    assert as_tracelens_counts(whole_window(trained)).core is trained
    assert computing(under(KERNELS["custom all-reduce"], trained)) == computing(trained)
    assert computing(other) > 2 * computing(trained)
