"""Pieces that are cut out of profiles of JAX: they are of JAX, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade import Run
from handmade_jax import training_profile

from tracelens_graph.analyses.ops.programs import recorded_executions
from tracelens_graph.analyses.places.modules import modules
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core


@pytest.fixture
def cut(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "jax.xplane.pb").write_bytes(training_profile(steps=3))
    assert run("cut", tmp_path / "jax.xplane.pb", "--step", 1, "--around", "0us", "-o", tmp_path / "cut.json")[0] == 0
    return tmp_path / "cut.json"


def scopes(core: Core) -> list[str]:
    return list(modules(core)["module"])


def test_a_piece_speaks_of_jax(run: Run, cut: Path) -> None:
    core = load_core(cut)
    assert core.framework.compiles_programs
    assert {"mlp", "outside of these scopes"} <= {*scopes(core)}
    code, out, _ = run("info", cut)
    assert code == 0
    assert "a named scope" in out
    for word in ("with_stack", "nn.Module", "cudaLaunchKernel"):
        assert word not in out


def test_another_name_of_a_profiler_is_not_kept(cut: Path) -> None:
    told = json.loads(cut.read_text())
    for name in ("something with a token", 3, None, ["XLA"]):
        core = load_core(json.dumps({**told, "profiler": name}).encode())
        assert not core.framework.compiles_programs
        assert "profiler" not in core.info.metadata


def test_executions_at_the_ends_of_a_piece_are_not_lost(run: Run, tmp_path: Path) -> None:
    from tracelens_graph.simulate.xla.__main__ import main

    assert main([str(tmp_path / "jax"), "--devices", "4"]) == 0
    assert run("cut", tmp_path / "jax", "--collective", 0, "-o", tmp_path / "cut.json")[0] == 0
    assert recorded_executions(load_core(tmp_path / "cut.json").everything).text == ""
