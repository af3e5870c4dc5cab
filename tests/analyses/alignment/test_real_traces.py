"""Real traces aligned: edits, unrelated traces, reasons."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import orjson
import pytest
from alignments import checked, torn

from corpus import CORPUS, cases, loaded, needs_corpus, traces_named
from tracelens_graph.analyses.alignment.align import Alignment, align
from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.reasons import Reason, Why
from tracelens_graph.analyses.alignment.rules import Reasons
from tracelens_graph.analyses.alignment.times import time_parts
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.diff_text import notes_on

MODELS = {"qwen1.5-0.5b": "Qwen2DecoderLayer", "vit-nsfw": "ViTLayer"}
H100, MI300 = "tracelens/h100", "tracelens/mi300"
VLLM, SGLANG = "tracelens/inference/vllm-decode", "tracelens/inference/sglang-decode"
PAIRS = [
    *((f"{H100}/{model}", f"{MI300}/{model}", False) for model in ("bert-small", *MODELS)),
    ("dlrm-8-ranks/kineto/rank0", "dlrm-8-ranks/kineto/rank1", False),
    (f"{VLLM}/graph-replay", f"{VLLM}/capture/graph_capture_rank_0", False),
    (f"{SGLANG}/graph-replay", f"{SGLANG}/capture/bs_32_rank0", False),
    (f"{MI300}/torch-compile-triton", f"{H100}/vit-nsfw", False),
    (f"{H100}/bert-small", f"{MI300}/vit-nsfw", True),
    (f"{H100}/qwen1.5-0.5b", f"{H100}/bert-small", True),
    (f"{MI300}/resnet-ddp-checkpointing", f"{MI300}/normalization-layers", True),
    (f"{MI300}/vit-nsfw", "tracelens/b200/eager-serving", True),
]  # fmt: skip


def windows(*names: str) -> list[Any]:
    return [window_of(loaded(path)) for path in traces_named(*names)]


@needs_corpus
@pytest.mark.parametrize(("a", "b", "are_unrelated"), PAIRS)
def test_strangers_are_told_apart_and_others_aligned(a: str, b: str, are_unrelated: bool) -> None:
    found = checked(*windows(a, b))
    assert found.are_unrelated == are_unrelated
    assert bool((found.leaves[0] >= 0).any()) != are_unrelated


@needs_corpus
def test_leaves_of_qwen_keep_their_op_and_category() -> None:
    found = align(*windows(*PAIRS[1][:2]))
    a, b = found.sides
    paired = found.leaves[0] >= 0
    same = a.token[paired] == b.token[found.leaves[0][paired]]
    assert same.mean() > 0.99
    launched = np.isin(a.root, a.linked_roots)
    assert paired[launched].mean() > 0.99
    # Queued before the recording began: 509 events against 463.
    assert paired[~launched].sum() > 0.9 * np.isin(b.root, b.lone_roots).sum()


class Edited:
    """The events of a trace, to be edited; every event has its number, and GPU events are kept with their launches."""

    def __init__(self, model: str) -> None:
        assert CORPUS is not None
        self.document = orjson.loads(gzip.decompress((CORPUS / H100 / f"{model}.json.gz").read_bytes()))
        self.events = self.document["traceEvents"]
        self.layers = sorted(
            (e for e in self.events if re.search(rf"{MODELS[model]}_\d+$", e["name"]) and "ts" in e),
            key=lambda event: float(event["ts"]),
        )

    def inside(self, layer: dict[str, Any]) -> list[dict[str, Any]]:
        """The host events of a layer and the GPU events that they launch."""
        begin, end = layer["ts"], layer["ts"] + layer["dur"]
        host = [
            e for e in self.events
            if e.get("tid") == layer["tid"] and "dur" in e and begin <= e["ts"] and e["ts"] + e["dur"] <= end
        ]  # fmt: skip
        launches = {e["args"]["correlation"] for e in host if "correlation" in e.get("args", {})}
        gpu = [e for e in self.events if e.get("cat") in GPU and e["args"].get("correlation") in launches]
        return host + gpu

    def without(self, layers: list[dict[str, Any]]) -> None:
        """Take layers out."""
        gone = {id(event) for layer in layers for event in self.inside(layer)}
        self.events[:] = [event for event in self.events if id(event) not in gone]

    def gpu(self) -> list[dict[str, Any]]:
        """All GPU events."""
        return [event for event in self.events if event.get("cat") in GPU]

    def window(self) -> Any:
        """What became of it."""
        return window_of(load_core(self.document))


GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def layers_deleted(trace: Edited, random: Random) -> None:
    trace.without(random.sample(trace.layers, 2))


def times_scaled(trace: Edited, random: Random) -> None:
    for event in trace.gpu():
        event["dur"] *= random.uniform(0.4, 2.5)


def kernels_renamed(trace: Edited, random: Random) -> None:
    for event in trace.gpu():
        if event["cat"] == "kernel":
            event["name"] += f"_tile{random.randrange(3)}"


def fills_added(trace: Edited, random: Random) -> None:
    """A fill before every tenth kernel, by the same launch: it counts to the same op."""
    launches = {e["args"].get("correlation") for e in trace.events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    more = []
    for event in [event for event in trace.gpu() if event["args"].get("correlation") in launches][::10]:
        more.append({**event, "cat": "gpu_memset", "name": "Memset (Device)", "ts": event["ts"] - 1e-3, "dur": 1e-3})
    trace.events.extend(more)


EDITS: dict[str, list[Callable[[Edited, Random], None]]] = {
    "deleted": [layers_deleted],
    "scaled": [times_scaled],
    "renamed": [kernels_renamed, times_scaled],
    "fills": [fills_added],
    "all": [layers_deleted, times_scaled, kernels_renamed, fills_added],
}


@needs_corpus
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("edits", EDITS)
def test_edits_of_a_real_trace(model: str, edits: str) -> None:
    trace, random = Edited(model), Random(edits)
    original = window_of(loaded(traces_named(f"{H100}/{model}")[0]))
    for edit in EDITS[edits]:
        edit(trace, random)
    found = checked(original, trace.window())
    assert torn(found, MODELS[model]) == 0
    alone = [int((of < 0).sum()) for of in found.leaves]
    assert alone == [_leaves_in(found, trace) if layers_deleted in EDITS[edits] else 0, 0]


def _leaves_in(found: Alignment, trace: Edited) -> int:
    """Leaves in two layers: all layers have equally many."""
    a, b = found.sides
    assert a.leaves > b.leaves
    return a.leaves - b.leaves


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
