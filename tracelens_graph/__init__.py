"""GPU profiler traces as property graphs: load, ask, compare, and push to Neo4j.

    import tracelens_graph as tlg

    g = tlg.load("trace.json.gz")       # a networkx graph that reads columns
    tlg.gpu_timeline(g).to_pandas()     # where the GPU's time went

Names are imported on first use, so that `import tracelens_graph` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tracelens_graph._version import __version__ as __version__

if TYPE_CHECKING:
    from tracelens_graph.analyses.attribution import attribution as attribution
    from tracelens_graph.analyses.timeline import gpu_timeline as gpu_timeline
    from tracelens_graph.api import TraceGraph as TraceGraph
    from tracelens_graph.api import from_networkx as from_networkx
    from tracelens_graph.api import load as load
    from tracelens_graph.compat.trace_to_tree import TraceToTree as TraceToTree
    from tracelens_graph.errors import AnalysisError as AnalysisError
    from tracelens_graph.errors import ChangedTraceError as ChangedTraceError
    from tracelens_graph.errors import DamagedTraceWarning as DamagedTraceWarning
    from tracelens_graph.errors import MissingExtraError as MissingExtraError
    from tracelens_graph.errors import NodeNotFoundError as NodeNotFoundError
    from tracelens_graph.errors import NotATraceError as NotATraceError
    from tracelens_graph.errors import OutputError as OutputError
    from tracelens_graph.errors import TraceError as TraceError
    from tracelens_graph.errors import TraceLensGraphError as TraceLensGraphError
    from tracelens_graph.schema import Kind as Kind

_HOME = {
    "AnalysisError": "errors",
    "ChangedTraceError": "errors",
    "DamagedTraceWarning": "errors",
    "Kind": "schema",
    "MissingExtraError": "errors",
    "NodeNotFoundError": "errors",
    "NotATraceError": "errors",
    "OutputError": "errors",
    "TraceError": "errors",
    "TraceGraph": "api",
    "TraceLensGraphError": "errors",
    "TraceToTree": "compat.trace_to_tree",
    "attribution": "analyses.attribution",
    "from_networkx": "api",
    "gpu_timeline": "analyses.timeline",
    "load": "api",
}

__all__ = [
    "AnalysisError",
    "ChangedTraceError",
    "DamagedTraceWarning",
    "Kind",
    "MissingExtraError",
    "NodeNotFoundError",
    "NotATraceError",
    "OutputError",
    "TraceError",
    "TraceGraph",
    "TraceLensGraphError",
    "TraceToTree",
    "__version__",
    "attribution",
    "from_networkx",
    "gpu_timeline",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
