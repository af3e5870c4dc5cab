"""Graphs with other names and other arguments."""

from __future__ import annotations

import numpy as np
import pytest
from extended import MM_KERNEL, NORM, trace

from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edited import renamed, with_arguments
from tracelens_graph.loading.one import load_core


@pytest.fixture
def core() -> Core:
    return load_core(trace())


def test_renaming_makes_another_graph(core: Core) -> None:
    other = renamed(core, {NORM: "my::other", MM_KERNEL: "norm_kernel<0>"})
    assert (other.node(NORM).name, other.node(MM_KERNEL).name) == ("my::other", "norm_kernel<0>")
    assert (core.node(NORM).name, core.node(MM_KERNEL).name) == ("my::norm", "::mm_kernel<2>")
    assert np.array_equal(other.columns.start_ns, core.columns.start_ns)
    assert other.node(NORM).shapes == core.node(NORM).shapes
    assert not other.equals(core)
    with pytest.raises(NodeNotFoundError, match="no node has uid 99"):
        renamed(core, {99: "x"})


def test_arguments_can_be_given(core: Core) -> None:
    other = with_arguments(core, {NORM: {"Input Dims": [[16, 16]]}})
    assert other.node(NORM).shapes == {"Input Dims": [[16, 16]], "Input type": ["c10::BFloat16"]}
    assert core.node(NORM).shapes["Input Dims"] == [[4, 8]]
    with pytest.raises(ValueError, match="'Shapes' is not part of arguments"):
        with_arguments(core, {NORM: {"Shapes": []}})
    launch = with_arguments(core, {NORM + 1: {"Input Dims": [[1]]}})
    assert launch.node(NORM + 1).shapes == {"Input Dims": [[1]]}
