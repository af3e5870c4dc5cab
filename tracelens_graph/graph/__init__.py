"""The graph in memory: columns, traversals and the reading API. Knows nothing of networkx or pandas."""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use

_NAMES = {
    "graph.core": "Core",
    "graph.edited": "renamed with_arguments",
    "graph.graph": "Graph",
    "graph.node": "Node",
    "graph.trace_set": "TraceMember TraceSet",
    "graph.window": "Window narrow",
}
"""Module -> the public names that are imported from it; `__init__.pyi` is made of it."""

__getattr__, __dir__, __all__ = _on_first_use(__name__, _NAMES)
