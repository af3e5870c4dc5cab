"""The graph for Python users: the core with a networkx face, frames, saving and exporting."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import networkx as nx

from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import NoDetails
from tracelens_graph.graph.graph import PARTS, Graph
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.nxview import views
from tracelens_graph.nxview.copies import to_networkx
from tracelens_graph.nxview.index import UidIndex
from tracelens_graph.nxview.inline import Drawing
from tracelens_graph.nxview.lazy import refuse
from tracelens_graph.nxview.show import html_table, one_line

if TYPE_CHECKING:
    import pandas as pd

    from tracelens_graph.execution.link import GraphTensors
    from tracelens_graph.stores.export import Exported
    from tracelens_graph.tables.table import Table


class Frames(Mapping[str, "pd.DataFrame"]):
    """Tables as DataFrames by name; units, definitions and notes in `df.attrs`."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self._made: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._made:
            self._made[name] = self._tables[name].to_pandas()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        return f"<tables {', '.join(self)}>"


class GraphWindow(Window, Drawing):
    """A part of a `TraceGraph`, with the tables of the report and the views of its page."""

    @cached_property
    def tables(self) -> Frames:
        """The tables of the report on this part, as DataFrames by name."""
        return Frames(report_tables(self))


_WRITERS = {name for name in dir(nx.MultiDiGraph) if getattr(views.ReadOnly, name, None) is refuse}
"""Methods that only raise: nothing that completion should offer."""


class TraceGraph(Graph, Drawing, views.ReadOnly, nx.MultiDiGraph):
    """A trace as a property graph that is a `networkx.MultiDiGraph`, read-only.

    Nodes are events, named by their uid (position in the file's event list), with the attributes of
    `Node.attributes()`; edges are those of `schema.EVENT_EDGES`, their key is the type. Every networkx function
    that does not write works on it. What comes first is the reading API of `Graph`: `node`, `find`, `steps`.

    `load()` and `from_networkx()` make one; `TraceGraph(core)` puts the face on a core.
    """

    def __new__(cls, *data: Any, **attributes: Any) -> Any:
        """An object to be filled; without a core, as networkx makes results, a plain MultiDiGraph."""
        return object.__new__(cls) if views.made_of_core(data) else nx.MultiDiGraph(*data, **attributes)

    def __init__(self, core: Core) -> None:
        self.__dict__.update(core.__dict__)
        self._kept = dict(self._kept)
        self.remember(GraphWindow(self), cast(Any, Window))
        index = UidIndex(self.columns.uid)
        nodes = views.event_nodes(self, index)
        views.put_on_face(self, views.graph_attributes(self), nodes, views.event_edges(self, views.ALL_EDGES), index)
        self._index = index

    # --- views and copies ------------------------------------------------------------------------------------

    @cached_property
    def tree(self) -> views.CallForest:
        """The call forest as a read-only DiGraph: all nodes, edges CALLS and LAUNCHES only."""
        return views.CallForest(self, self._node, self._index)

    @cached_property
    def full(self) -> views.FullGraph:
        """The graph with its context and knowledge nodes (run, trace, threads, streams, signatures, classes ...).

        Raises:
            ChangedTraceError: the file, whose hash names the trace, is no longer the one that was loaded.
        """
        return views.FullGraph(self, self._node, self._index)

    def subtree(self, uid: int) -> set[int]:
        """Uids of all descendants of a node in the call forest, without the node itself.

        Raises:
            NodeNotFoundError: there is no such node.
        """
        row = self.row(uid)
        return set(self.columns.uid[row + 1 : int(self.columns.last[row]) + 1].tolist())

    def to_networkx(self) -> Any:
        """An ordinary, mutable `networkx.MultiDiGraph` with the same nodes, edges and attributes."""
        return to_networkx(self)

    def copy(self, as_view: bool = False) -> Any:
        """A mutable copy as `to_networkx()` makes it, or a read-only view: what networkx means by it."""
        return nx.graphviews.generic_graph_view(self) if as_view else to_networkx(self)

    # --- tables ----------------------------------------------------------------------------------------------

    @property
    def everything(self) -> GraphWindow:
        """The window that holds the whole trace."""
        return cast(GraphWindow, whole_window(self))

    if TYPE_CHECKING:
        window: Callable[..., GraphWindow]

    @property
    def tensors(self) -> GraphTensors | None:
        """Tensors and storages; None without an execution trace."""
        from tracelens_graph.execution.link import tensors_of

        return tensors_of(self)

    @property
    def tables(self) -> Frames:
        """The tables of the report as DataFrames, by name; each is computed when it is first asked for.

        For other options than the default see `report_tables`; for a part of the trace `window`.
        """
        return self.everything.tables

    # --- files -------------------------------------------------------------------------------------

    def nodes_frame(self, add: Iterable[str] = ()) -> pd.DataFrame:
        """All nodes as a DataFrame indexed by uid; times in ns, other nodes named by uid, absent values NA.

        Args:
            add: further columns: `module` (uid of the innermost nn.Module, and `module_name`), `step` (`step_number`),
                `launcher` (of GPU work: uid of the op or runtime call that launched it, and `launcher_name`).

        Raises:
            AnalysisError: there are no such columns.
        """
        from tracelens_graph.nxview.frames import nodes_frame

        return nodes_frame(self, add)

    def edges_frame(self) -> pd.DataFrame:
        """All edges as a DataFrame: uids `source` and `target`, and `type`."""
        from tracelens_graph.nxview.frames import edges_frame

        return edges_frame(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to one file, by custom `*.tlg`, which `load()` maps into memory at once.

        Raises:
            OutputError: it cannot be written.
            ChangedTraceError: the trace changed since it was loaded, so its events cannot be taken along.
        """
        from tracelens_graph.stores.graph_file import write_graph

        write_graph(self, path)

    def export(self, path: str | os.PathLike[str], format: str | None = None) -> Exported:
        """Write nodes and edges for other programs: GraphML, Parquet or CSV; see `stores.export.export_graph`.

        Raises:
            OutputError: there is no such format, or a file cannot be written.
            MissingExtraError: Parquet needs the extra `parquet`.
        """
        from tracelens_graph.stores.export import export_graph

        return export_graph(self, path, format)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: getattr(self, name) for name in PARTS if name != "details"}
        try:
            details = pickle.dumps(self.details)
        except TypeError:  # a temporary file of this process: the events stay behind, the identity does not
            return _restored, (state, pickle.dumps(NoDetails()), self.trace_id)
        return _restored, (state, details, "")

    # --- showing ---------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<TraceGraph {one_line(self)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html_table(self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - _WRITERS)


def _restored(state: dict[str, Any], details: bytes, trace_id: str) -> TraceGraph:
    core = Graph(**state, details=pickle.loads(details))
    if trace_id:
        core.__dict__["trace_id"] = trace_id
    graph: TraceGraph = TraceGraph(core)
    return graph
