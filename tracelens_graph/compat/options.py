"""What the options of TraceLens's calls mean: the device, and what is not there. Warnings of damaged traces."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

from tracelens_graph.errors import AnalysisError, DamagedTraceWarning
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.captures import with_captures
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import Architecture, architecture

Device = Architecture | Mapping[str, Any] | str | os.PathLike[str]


def device(*given: Device | None) -> Architecture | None:
    """The one device that is given; None if none is.

    Args:
        given: a device, the parsed JSON that TraceLens describes one by, the path of such a file or of one of ours,
            or a name such as `MI300X` or `h100-sxm`.

    Raises:
        AnalysisError: there are two, or what is given is no device.
    """
    named = [one for one in given if one is not None]
    if len(named) > 1:
        raise AnalysisError("more than one device is given: gpu_arch, gpu_arch_json_path, gpu_arch_platform")
    if not named:
        return None
    try:
        return named[0] if isinstance(named[0], Architecture) else architecture(named[0])
    except OSError as error:
        raise AnalysisError(f"{error.filename}: {error.strerror}") from None


_MISSING = {
    "python_path": "simulated times",
    "enable_origami": "simulated times",
    "inductor_cache_dir": "performance models of compiled kernels",
    "tree_postprocess_extension": "extensions; the graph is read-only",
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


def loaded(source: Any, captures: Any = None) -> Core:
    """The graph of a trace, or a loaded one, joined with captures of the graphs that it replays.

    Raises:
        TraceError: it cannot be read.
        LinkError: the captures hold no captured graph.

    Warns:
        UserWarning: something of the captures could not be used.
    """
    if isinstance(source, Core) and captures is None:
        return source

    def tell(line: str) -> None:
        warnings.warn(line, stacklevel=4)

    return (
        with_captures(source, captures, tell)
        if isinstance(source, Core)
        else load_core(source, capture=captures, tell=tell)
    )


def warn_of_damage(core: Core) -> None:
    """Warn the caller's caller of a trace that was broken."""
    if core.info.damage:
        warnings.warn(f"{core.info.source}: {core.info.damage}", DamagedTraceWarning, stacklevel=3)
