"""What callers must be told: what is asked for and not there, and what was wrong with their trace."""

from __future__ import annotations

import warnings
from typing import Any

from tracelens_graph.errors import AnalysisError, DamagedTraceWarning
from tracelens_graph.graph.core import Core

_MISSING = {
    "python_path": "simulated times",
    "enable_origami": "simulated times",
    "inductor_cache_dir": "performance models of compiled kernels",
    "enable_pseudo_ops": "pseudo ops",
    "tree_postprocess_extension": "extensions; the graph is read-only",
    "capture_trace_filepath": "capture traces of replayed graphs",
    "jax": "trees of JAX; generate_perf_report_jax reports on profiles of it",
    "kernel_metadata_keyword_filters": "filters of kernels by text",
}
"""Argument -> what it needs."""


def refuse(**given: Any) -> None:
    """Check that nothing is asked for that is not there.

    Raises:
        AnalysisError: one of the arguments has a value other than None and False; the message names what is missing.
    """
    asked = [name for name, value in given.items() if value is not None and value is not False]
    if asked:
        raise AnalysisError("not available: " + ", ".join(f"{_MISSING[name]} ({name})" for name in asked))


def warn_of_damage(core: Core) -> None:
    """Warn the caller's caller of a trace that was broken."""
    if core.info.damage:
        warnings.warn(f"{core.info.source}: {core.info.damage}", DamagedTraceWarning, stacklevel=3)
