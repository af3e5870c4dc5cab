"""The graph for Python users: the core with a networkx face, frames, saving and exporting."""

from __future__ import annotations

import html
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast

import networkx as nx
import numpy as np

from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import NoDetails
from tracelens_graph.graph.graph import PARTS, Graph
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.nxview import views
from tracelens_graph.nxview.inline import Drawing
from tracelens_graph.nxview.lazy import refuse
from tracelens_graph.nxview.questions import OfTrace
from tracelens_graph.schema import DERIVED, STORED, Kind
from tracelens_graph.stores.frames import PLACES, Frame, Texts, edge_columns, node_columns, place_columns
from tracelens_graph.utils.texts import counted

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


class GraphWindow(Window, Drawing, OfTrace):
    """A part of a `TraceGraph`, with the tables of the report and the views of its page."""

    @cached_property
    def tables(self) -> Frames:
        """The tables of the report on this part, as DataFrames by name."""
        return Frames(report_tables(self))


P = ParamSpec("P")


def _of_its_own(method: Callable[Concatenate[Any, P], Window]) -> Callable[Concatenate[Any, P], GraphWindow]:
    """A method of graphs, for type checkers: the windows of a `TraceGraph` are `GraphWindow`s."""
    return cast("Callable[Concatenate[Any, P], GraphWindow]", method)


_WRITERS = {name for name in dir(nx.MultiDiGraph) if getattr(views.ReadOnly, name, None) is refuse}
"""Methods that only raise: nothing that completion should offer."""


class TraceGraph(Graph, Drawing, OfTrace, views.ReadOnly, nx.MultiDiGraph):
    """A trace as a property graph that is a `networkx.MultiDiGraph`, read-only.

    Nodes are events, named by their uid (position in the file's event list), with the attributes of
    `Node.attributes()`; edges are those of `schema.EVENT_EDGES`, their key is the type. Every networkx function
    that does not write works on it. What comes first is the reading API of `Graph`: `node`, `find`, `steps`.

    `load()` and `from_networkx()` make one; `TraceGraph(core)` puts the face on a core.
    """

    def __init__(self, core: Core) -> None:
        self.__dict__.update(core.__dict__)
        self._kept = dict(self._kept)
        self.remember(GraphWindow(self), cast(Any, Window))
        edges = views.event_edges(self)
        self._put_on(views.graph_attributes(self), views.event_nodes(self), edges)

    # --- views and copies ------------------------------------------------------------------------------------

    @cached_property
    def tree(self) -> views.CallForest:
        """The call forest as a read-only DiGraph: all nodes, edges CALLS and LAUNCHES only."""
        return views.CallForest(self, self._node)

    @cached_property
    def full(self) -> views.FullGraph:
        """The graph with its context and knowledge nodes (run, trace, threads, streams, signatures, classes ...).

        Raises:
            ChangedTraceError: the file, whose hash names the trace, is no longer the one that was loaded.
        """
        return views.FullGraph(self, self._node)

    def cypher(self, statement: str, /, *, timeout_s: float = 60.0, **parameters: Any) -> Table:
        """The answer to a statement in Cypher, without a server: see docs/cypher-without-a-server.md.

        Labels, types of edges and properties are those of a database. What a statement names is made when it is first
        named, and kept with the graph; nothing is written.

        Args:
            timeout_s: when it is given up.
            parameters: what the statement calls `$name`.

        Raises:
            DatabaseError: the statement is none, needs Neo4j, writes, or takes too long; in one line, with the place.
            MissingExtraError: the extra `cypher` is not installed.
            ChangedTraceError: the trace file is no longer the one that was loaded.
        """
        asking = import_module("tracelens_graph.embedded.asking")  # which stands above this room
        return asking.cypher(self, statement, timeout_s=timeout_s, **parameters)

    def subtree(self, uid: int) -> set[int]:
        """Uids of all descendants of a node in the call forest, without the node itself.

        Raises:
            NodeNotFoundError: there is no such node.
        """
        row = self.row(uid)
        return set(self.columns.uid[row + 1 : int(self.columns.last[row]) + 1].tolist())

    # --- tables ----------------------------------------------------------------------------------------------

    @property
    def everything(self) -> GraphWindow:
        """The window that holds the whole trace."""
        return cast(GraphWindow, whole_window(self))

    window = _of_its_own(Graph.window)

    @property
    def tensors(self) -> GraphTensors | None:
        """Tensors and storages; None without an execution trace."""
        from tracelens_graph.execution.link import tensors_of

        return tensors_of(self)

    @property
    def tables(self) -> Frames:
        """The tables of the report as DataFrames, by name; each is computed on first use.

        For other options than the default see `report_tables`; for a part of the trace `window`.
        """
        return self.everything.tables

    # --- files -------------------------------------------------------------------------------------

    def nodes_frame(self, add: Iterable[str] = ()) -> pd.DataFrame:
        """All nodes as a DataFrame in row order, indexed by uid.

        Columns are those of `schema.STORED` and `schema.DERIVED`, times in ns. Texts are categories, an argument set
        is four columns of JSON, `parent`, `last`, `owner`, `step` and `annotation` hold uids, and what was not
        recorded is NA. Definitions and units are in `attrs`.

        Args:
            add: further columns: `module` (uid of the innermost nn.Module, and `module_name`), `step` (`step_number`),
                `launcher` (of GPU work: uid of the op or runtime call that launched it, and `launcher_name`).

        Raises:
            AnalysisError: there are no such columns.
        """
        columns, definitions = node_columns(self), {prop.name: prop.meaning for prop in STORED + DERIVED}
        for place in [add] if isinstance(add, str) else add:
            found = place_columns(self, place)
            columns |= found
            definitions |= dict.fromkeys(found, PLACES[place])
        frame = _frame(columns).set_index("uid")
        frame.attrs["definitions"] = definitions
        frame.attrs["units"] = {prop.name: prop.unit for prop in STORED + DERIVED if prop.unit}
        return frame

    def edges_frame(self) -> pd.DataFrame:
        """All edges as a DataFrame: uids `source` and `target`, and `type`."""
        return _frame(edge_columns(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to one file, usually `*.tlg`, which `load()` maps into memory at once.

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
        return f"<TraceGraph {_one_line(self)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return _html_table(self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - _WRITERS)


def _restored(state: dict[str, Any], details: bytes, trace_id: str) -> TraceGraph:
    core = Graph(**state, details=pickle.loads(details))
    if trace_id:
        core.__dict__["trace_id"] = trace_id
    return TraceGraph(core)


def _frame(columns: Frame) -> pd.DataFrame:
    import pandas as pd

    def series(values: np.ndarray | Texts) -> Any:
        if isinstance(values, Texts):
            return pd.Categorical.from_codes(values.codes, pd.Index(list(values.texts), dtype=object))
        if isinstance(values, np.ma.MaskedArray):
            return pd.arrays.IntegerArray(values.data.astype(np.int64), np.ma.getmaskarray(values))
        return values

    return pd.DataFrame({name: series(values) for name, values in columns.items()})


def _one_line(core: Core) -> str:
    """Source, size, GPU events, duration, devices; of an execution trace alone its threads instead."""
    c = core.columns
    if not core.framework.has_times:
        name = os.path.basename(core.info.source) or "execution trace"
        return f"{name}: {counted(len(c), 'node')} without times, {counted(len(core.threads), 'thread')}"
    devices = np.unique(c.device[core.gpu_rows])
    span = int(c.end_ns.max(initial=0)) / 1e6
    return (
        f"{os.path.basename(core.info.source) or 'trace'}: {counted(len(c), 'node')}, "
        f"{counted(len(core.gpu_rows), 'GPU event')}, {span:,.1f} ms, {counted(len(devices), 'device')}"
    )


def _html_table(core: Core) -> str:
    """The same with a table of the kinds of nodes: how many, and the sum of their durations."""
    c = core.columns
    counts = np.bincount(c.kind, minlength=len(Kind))
    times = np.bincount(c.kind, weights=c.dur_ns, minlength=len(Kind)) / 1e6
    timed, meaning = core.framework.has_times, core.framework.kind_meaning
    rows = "".join(
        f"<tr><th style='text-align:left' title='{html.escape(meaning[kind], quote=True)}'>{kind.name}</th>"
        f"<td>{counts[kind]:,}</td>{f'<td>{times[kind]:,.3f}</td>' if timed else ''}</tr>"
        for kind in Kind
        if counts[kind]
    )
    head = f"<tr><th></th><th>nodes</th>{'<th>sum of durations, ms</th>' if timed else ''}</tr>"
    return f"<table><caption>{html.escape(_one_line(core))}</caption>{head}{rows}</table>"
