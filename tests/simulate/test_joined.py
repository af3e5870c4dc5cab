"""Traces of simulated servers, joined with their captures, hold what is true of each replayed kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulate.served import outcomes

from tracelens_graph import load
from tracelens_graph.simulate.serving import simulate, write

NAMED: list[dict[str, Any]] = [
    {},
    {"engine": "sglang", "experts": 8},
    {"capture": "piecewise", "details": False},
    {"annotations": "native", "python_stacks": False},
    {"ranks": 2},
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("settings", NAMED, ids=str)
def test_every_kernel_is_joined_where_captures_name_them(tmp_path: Path, seed: int, settings: dict[str, Any]) -> None:
    run = simulate(seed=seed, steps=20, platform="rocm", **settings)
    write(run, tmp_path)
    g = load(tmp_path / "rank0.json.gz", capture=tmp_path / "capture")
    found = outcomes(g, run.ranks[0].truth)
    assert len(found["right"]) > 500
    assert not found["wrong"]
    assert not found["unjoined"]
