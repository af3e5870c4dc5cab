"""What is said of places of real pairs whose events were compared by hand."""

from __future__ import annotations

from functools import cache

import pytest

from corpus import CORPUS, cases, loaded
from tracelens_graph.analyses.alignment.causes import Reason, Reasons, Why
from tracelens_graph.analyses.alignment.difference import Diff, Place, diff, median_steps
from tracelens_graph.analyses.alignment.tables import time_parts
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.graph.window import window_of
from tracelens_graph.reports.diff_text import notes_on

HTA = "hta/two-of-128-ranks/rank-0", "hta/two-of-128-ranks/rank-1"
DLRM = "dlrm-8-ranks/kineto/rank0", "dlrm-8-ranks/kineto/rank3"
NEIGHBOURS = "dlrm-8-ranks/kineto/rank0", "dlrm-8-ranks/kineto/rank1"
BERT = "tracelens/h100/bert-small", "tracelens/mi300/bert-small"
VIT = "tracelens/h100/vit-nsfw", "tracelens/mi300/vit-nsfw"

READ_BY_HAND: dict[str, tuple[tuple[str, str], str, float, Reason, tuple[str, ...]]] = {
    "a sort of several passes": (
        DLRM, "SplitLookupFunction_adagrad_Op", 0.102, Reason.other_kernel,
        ("DeviceRadixSortSingleTileKernel became 4 x DeviceRadixSortOnesweepKernel + 6 x Memset (Device) + "
         "DeviceRadixSortHistogramKernel and 2 more (+0.054 of +0.102 ms)",
         "the 8 kernels that both run, 1.77x as long (+0.048 ms); 9 -> 21 GPU events"),
    ),
    "equal kernels and a fill": (
        NEIGHBOURS, "SplitLookupFunction_adagrad_Op", 0.019, Reason.other_time,
        ("the 9 kernels that both run, 1.23x as long (+0.017 of +0.019 ms)",
         "1 more: vectorized_elementwise_kernel (+0.002 ms)"),
    ),
    "a copy": (
        HTA, "aten::cat", 1.807, Reason.other_kernel,
        ("1 x CatArrayBatchedCopy became 1 x Memcpy DtoD (Device -> Device)",),
    ),
    "the lookups": (
        DLRM, "split_embedding_codegen_lookup_adagrad_function", 0.059, Reason.other_sizes,
        ("other sizes: 768 became 13312, 2 more arguments differ; the same kernels, 9.43x as long",),
    ),
    "all-to-all": (DLRM, "record_param_comms", 4.014, Reason.communication, ("the same all-to-all, 2.51x",)),
    "all-reduce": (NEIGHBOURS, "record_param_comms", 0.031, Reason.communication, ("the same all-reduce, 1.02x",)),
    "one side's all-to-all": (HTA, "alltoall_base_", 41.375, Reason.communication, ("rank-1: all-to-all, 1 x nccl",)),
    "attention": (
        BERT, "aten::_flash_attention_forward", 0.076, Reason.other_library,
        ("another library: FlashAttention attention forward 128x128 became Triton attention forward",),
    ),
    "convolution": (
        VIT, "aten::_convolution", -0.079, Reason.other_library, ("another library: cuDNN fprop 256x64x32 +",)
    ),
}  # fmt: skip


@cache
def _compared(pair: tuple[str, str]) -> tuple[Diff, list[tuple[Place, Why]]]:
    assert CORPUS is not None
    windows = (window_of(loaded(CORPUS / f"{name}.json.gz")) for name in pair)
    found = diff(*median_steps(*windows), names=("rank-0", "rank-1"))
    reasons = Reasons(found)
    return found, [(place, reasons.of(place)) for place in found.places]


@pytest.mark.parametrize("what", cases((what, what) for what in READ_BY_HAND))
def test_places_that_were_read_by_hand(what: str) -> None:
    pair, op, change_ms, reason, texts = READ_BY_HAND[what]
    there = [
        why
        for place, why in _compared(pair)[1]
        if any(op in name for name in place.names) and round(place.change_ns / 1e6, 3) == change_ms
    ]
    assert [why.reason for why in there] == [reason]
    assert all(text in there[0].text for text in texts), there


@pytest.mark.parametrize("pair", cases([("hta", HTA)]))
def test_jobs_of_which_most_was_not_recorded(pair: tuple[str, str]) -> None:
    found, told = _compared(pair)
    said = {why.reason for _, why in told}
    assert not said & {Reason.fused, Reason.unfused}
    assert not any("another library" in why.text or "another build" in why.text for _, why in told)
    assert any(
        note.startswith("Most events were left out of the files of rank-0 and rank-1") for note in notes_on(found)
    )
    loader = next(part for part in time_parts(found) if part.cause is Cause.data_loader)
    assert "the longest due in rank-1 to ## data_load ##" in loader.why
