"""Profiles of JAX without scopes: tables by scopes say what the names of instructions tell of the passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from handmade_jax import training_profile

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.ops.passes import forward_backward
from tracelens_graph.analyses.places.modules import modules
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.tables.table import Table

UNSCOPED = training_profile().replace(b"jvp(mlp)", b"jit(mlp)")
"""Two steps, each with 25 us of the forward and 33 us of the backward pass."""

BEGIN = "by the names of instructions: "
Tell = Callable[[Core | Window], Table]


def told(table: Table) -> list[str]:
    return [note.removeprefix(BEGIN) for note in table.notes if note.startswith(BEGIN)]


@pytest.mark.parametrize("tell", [modules, forward_backward])
def test_passes_without_scopes(tell: Tell) -> None:
    core = load_core(UNSCOPED)
    assert told(tell(core)) == ["forward 50.000 us, backward 66.000 us"]
    assert told(tell(core.window(step=1))) == ["forward 25.000 us, backward 33.000 us"]
    assert any("named scope" in note for note in tell(core).notes)


@pytest.mark.parametrize("tell", [modules, forward_backward])
def test_passes_with_scopes_stand_in_the_table(tell: Tell) -> None:
    table = tell(load_core(training_profile()))
    assert len(table)
    assert not any("scope" in note for note in table.notes)
    assert not told(table)


@pytest.mark.parametrize("tell", [modules, forward_backward])
def test_the_file_may_be_gone(tell: Tell, tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(UNSCOPED)
    core = load_core(path)
    path.unlink()
    table = tell(core)
    assert table.notes
    assert not told(table)


@parametrize("path", [path for path in xplane_files() if "attention" in path.name])
def test_passes_of_a_real_profile_without_scopes(path: Path) -> None:
    assert told(modules(loaded(path))) == ["forward 4,531.040 us, backward 7,602.545 us"]
