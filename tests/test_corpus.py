"""The chosen traces have the features that they were chosen for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from corpus import CHOSEN, kineto_traces, loaded, needs_corpus, parametrize, trace_id, traces_named
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import GPU_KINDS, Kind


def count(core: Core, *kinds: Kind) -> int:
    return int(np.isin(core.columns.kind, kinds).sum())


def unlinked_share(core: Core) -> float:
    return float((core.columns.parent[core.gpu_rows] < 0).mean())


def owned(core: Core) -> bool:
    return bool((core.columns.owner[core.gpu_rows] >= 0).any())


def called(core: Core, part: str) -> bool:
    return any(part in core.names[code] for code in np.unique(core.columns.name))


def vendor(core: Core) -> str:
    return str(core.info.metadata["deviceProperties"][0]["name"]).partition(" ")[0]


def world(core: Core) -> int:
    return int(core.info.metadata["distributedInfo"]["world_size"])


FEATURES: dict[str, Callable[[Core], bool]] = {
    "tracelens/h100/qwen1.5-0.5b": lambda g: (
        vendor(g) == "NVIDIA"
        and count(g, Kind.Module) > 300
        and count(g, Kind.PythonFunction) > 3000
        and len(g.autograd.forward) == 0
        and 0.25 < unlinked_share(g) < 0.35
    ),
    "tracelens/mi300/resnet-ddp-checkpointing": lambda g: (
        vendor(g) == "AMD"
        and len(g.autograd.forward) > 300
        and bool(g.recompute.any())
        and count(g, Kind.Step) == 3
        and world(g) == 8
        and len(g.collective_args) > 0
    ),
    "tracelens/mi300/normalization-layers": lambda g: (
        len(g.autograd.forward) > 50
        and not g.recompute.any()
        and count(g, Kind.Step) == 0
        and count(g, Kind.Annotation) == 30
        and all(called(g, f"aten::native_{kind}_norm") for kind in ("batch", "group", "layer"))
    ),
    "tracelens/mi300/torch-compile-triton": lambda g: called(g, "triton_poi_fused"),
    "tracelens/inference/vllm-decode/graph-replay": lambda g: called(g, "hipGraphLaunch"),
    "tracelens/mi210/gpu-only": lambda g: count(g, Kind.Op) == 0 and len(g.gpu_rows) > 500 and not owned(g),
    "dlrm-8-ranks/kineto/rank0": lambda g: (
        world(g) == 8
        and called(g, "nccl")
        and len(g.collective_args) == 0
        and count(g, Kind.Module, Kind.PythonFunction) == 0
    ),
    "hta/critical-path/event-sync-multi-stream": lambda g: (
        count(g, Kind.SyncEvent) > 0
        and count(g, Kind.Step, Kind.Annotation) == 0
        and len(np.unique(g.columns.stream[g.gpu_rows])) > 1
    ),
    "hta/cpu-only/rank-34": lambda g: len(g.columns) > 0 and count(g, *GPU_KINDS) == 0,
}


def test_every_choice_says_why() -> None:
    assert FEATURES.keys() == CHOSEN.keys()


@needs_corpus
def test_the_chosen_traces_are_there() -> None:
    assert set(CHOSEN) <= set(map(trace_id, kineto_traces()))


@parametrize("path", traces_named(*CHOSEN))
def test_a_chosen_trace_has_its_features(path: Path) -> None:
    assert FEATURES[trace_id(path)](loaded(path))
