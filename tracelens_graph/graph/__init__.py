"""The graph in memory: columns, traversals and the reading API. Knows nothing of networkx or pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens_graph._lazy import on_first_use as _on_first_use

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core as Core
    from tracelens_graph.graph.edited import renamed as renamed
    from tracelens_graph.graph.edited import with_arguments as with_arguments
    from tracelens_graph.graph.node import Node as Node
    from tracelens_graph.graph.trace_set import TraceMember as TraceMember
    from tracelens_graph.graph.trace_set import TraceSet as TraceSet
    from tracelens_graph.graph.window import Window as Window
    from tracelens_graph.graph.window import narrow as narrow

_HOME = {
    "Core": "graph.core",
    "Node": "graph.node",
    "TraceMember": "graph.trace_set",
    "TraceSet": "graph.trace_set",
    "Window": "graph.window",
    "narrow": "graph.window",
    "renamed": "graph.edited",
    "with_arguments": "graph.edited",
}

__all__ = [
    "Core",
    "Node",
    "TraceMember",
    "TraceSet",
    "Window",
    "narrow",
    "renamed",
    "with_arguments",
]

__getattr__, __dir__ = _on_first_use(__name__, _HOME)
