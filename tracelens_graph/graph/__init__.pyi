# Made by docs/make_stub.py of the list in __init__.py.

from tracelens_graph.graph.core import Core as Core
from tracelens_graph.graph.edited import renamed as renamed
from tracelens_graph.graph.edited import with_arguments as with_arguments
from tracelens_graph.graph.graph import Graph as Graph
from tracelens_graph.graph.node import Node as Node
from tracelens_graph.graph.trace_set import TraceMember as TraceMember
from tracelens_graph.graph.trace_set import TraceSet as TraceSet
from tracelens_graph.graph.window import Window as Window
from tracelens_graph.graph.window import narrow as narrow

__all__: list[str]
