"""Replays of simulated servers are identified without captures as what they truly are."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tracelens_graph.analyses.identification.kernels import passes
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.serving import simulate, write

ROLES = {
    "QKVParallelLinear": "qkv product", "RowParallelLinear": "out product|down product",
    "MergedColumnParallelLinear": "gate/up product", "ReplicatedLinear": "router product", "SiluAndMul": "activation",
}  # fmt: skip
"""Innermost module -> roles of its kernels."""


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"platform": "rocm", "engine": "sglang", "experts": 8}, {"streams": 3},
        {"lost": 0.003, "layers": 16}, {"platform": "rocm", "streams": 3, "annotations": "none"},
        {"lost": 0.05, "steps": 20, "seed": 6}, {"lost": 0.03, "layers": 16, "steps": 20, "seed": 21},
        {"lost": 0.05, "layers": 4, "steps": 20, "experts": 8, "platform": "rocm", "sizes": (8, 16)},
    ],
    ids=str,
)  # fmt: skip
def test_layers_and_roles_are_those_of_the_server(tmp_path: Path, settings: dict[str, Any]) -> None:
    run = simulate(**{"layers": 8, "steps": 5, **settings})
    write(run, tmp_path, traces_only=True)
    core = load_core(tmp_path / "rank0.json.gz")
    places = {
        int(core.columns.uid[row]): place
        for one in passes(core)
        for row, place in zip(one.rows.tolist(), one.places, strict=True)
    }
    right: dict[bool, int] = defaultdict(int)
    surely_wrong = 0
    truth = run.ranks[0].truth
    for replay in truth["replays"]:
        nodes = truth["graphs"][replay["graph"]]["nodes"]
        for modules, uid in zip(nodes["modules"], replay["kernels"], strict=True):
            inner = modules[-1].removeprefix("nn.Module: ").rpartition("_")[0] if modules else ""
            if uid is None or inner not in ROLES:
                continue
            layer = next((int(one.rpartition("_")[2]) for one in modules if "DecoderLayer" in one), None)
            place = places.get(uid)
            is_right = place is not None and place.slot.role in ROLES[inner].split("|")
            is_right = is_right and (layer is None or place is None or place.layer == layer)
            right[is_right] += 1
            surely_wrong += not is_right and place is not None and place.confidence > 0.7
    assert right[True] > 80
    assert right[True] >= 0.995 * (right[True] + right[False])
    assert not surely_wrong
    assert settings.get("lost", 0) < 0.03 or not any(place.out_of_order for place in places.values())


@pytest.mark.parametrize("settings", [{"engine": "vllm"}, {"engine": "sglang", "experts": 8}], ids=str)
def test_eager_steps_of_another_platform_and_batch_size_name_the_ops(tmp_path: Path, settings: dict[str, Any]) -> None:
    run = simulate(layers=4, steps=5, seed=7, sizes=(16,), **settings)
    write(run, tmp_path / "replayed", traces_only=True)
    write(
        simulate(layers=4, steps=12, seed=8, sizes=(64,), platform="rocm", **settings),
        tmp_path / "eager",
        traces_only=True,
    )
    core = load_core(tmp_path / "replayed/rank0.json.gz", identify=tmp_path / "eager/rank0.json.gz")
    c = core.columns
    owner = dict(zip(c.uid[core.gpu_rows].tolist(), c.owner[core.gpu_rows].tolist(), strict=True))
    truth = run.ranks[0].truth
    right = [
        op == core.names[c.name[owner[uid]]]
        for replay in truth["replays"]
        for op, uid in zip(truth["graphs"][replay["graph"]]["nodes"]["op"], replay["kernels"], strict=True)
        if op
    ]
    assert len(right) > 100
    assert sum(right) > 0.95 * len(right)
    assert "of their time like" in core.info.inferred
