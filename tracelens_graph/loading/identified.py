"""Traces whose replayed kernels are identified without captures, alone or like another trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph


def identified(core: Core, like: Any, tell: Callable[[str], None]) -> Graph:
    """The graph with what its replayed kernels were identified as: see `with_identified`.

    Args:
        core: the graph.
        like: another trace of the same model, given as for `load_core`, or its graph; True for none.
        tell: called with a line where nothing was identified.

    Raises:
        LinkError: the other trace explains nothing.
        TraceError: it cannot be read.
    """
    from tracelens_graph.analyses.identification.calls import with_identified
    from tracelens_graph.loading.profile import load_profile
    from tracelens_graph.loading.pseudo_ops import with_pseudo_ops

    other = None if like is True else like if isinstance(like, Core) else load_profile(like)
    return with_pseudo_ops(with_identified(core, tell, other))
