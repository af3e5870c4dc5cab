"""The graph for Python users: the core with a networkx face, frames, saving and exporting."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx as nx

from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.errors import DamagedTraceWarning, DatabaseError, IncompleteSetWarning
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import NoDetails
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.graph.window import Window
from tracelens_graph.loading import load_core
from tracelens_graph.nxview import views
from tracelens_graph.nxview.copies import to_networkx
from tracelens_graph.nxview.index import UidIndex
from tracelens_graph.nxview.lazy import refuse
from tracelens_graph.nxview.rebuild import rebuild
from tracelens_graph.nxview.show import html_table, one_line
from tracelens_graph.reports.progress import progress_on_terminal
from tracelens_graph.set_loading import MEMORY_BYTES, load_core_set, trace_files
from tracelens_graph.suggest import hint

if TYPE_CHECKING:
    import pandas as pd

    from tracelens_graph.stores.export import Exported
    from tracelens_graph.table import Table

_STATE = (
    "columns", "names", "threads", "argsets", "autograd_flows", "depends_on", "collective_args", "info",
)  # fmt: skip
"""What a core is made of, beside the access to its file."""


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


class GraphWindow(Window):
    """A part of a `TraceGraph`, with the tables of the report."""

    @cached_property
    def tables(self) -> Frames:
        """The tables of the report on this part, as DataFrames by name."""
        return Frames(report_tables(self))


_WRITERS = {name for name in dir(nx.MultiDiGraph) if getattr(views.ReadOnly, name, None) is refuse}
"""Methods that only raise: nothing that completion should offer."""


class TraceGraph(Core, views.ReadOnly, nx.MultiDiGraph):
    """A trace as a property graph that is a `networkx.MultiDiGraph`, read-only.

    Nodes are events, named by their uid (position in the file's event list), with the attributes of
    `Node.attributes()`; edges are those of `schema.EVENT_EDGES`, their key is the type. Every networkx function
    that does not write works on it. What comes first is the reading API of `Core`: `node`, `find`, `steps`.

    `load()` and `from_networkx()` make one; `TraceGraph(core)` puts the face on a core.
    """

    def __new__(cls, *data: Any, **attributes: Any) -> Any:
        """An object to be filled; without a core, as networkx makes results, a plain MultiDiGraph."""
        return object.__new__(cls) if views.made_of_core(data) else nx.MultiDiGraph(*data, **attributes)

    def __init__(self, core: Core) -> None:
        self.__dict__.update({name: value for name, value in core.__dict__.items() if name != "everything"})
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

    @cached_property
    def everything(self) -> GraphWindow:
        """The window that holds the whole trace."""
        return GraphWindow(self)

    if TYPE_CHECKING:
        window: Callable[..., GraphWindow]

    @property
    def tables(self) -> Frames:
        """The tables of the report as DataFrames, by name; each is computed when it is first asked for.

        For other options than the default see `report_tables`; for a part of the trace `window`.
        """
        return self.everything.tables

    # --- files -------------------------------------------------------------------------------------

    def nodes_frame(self) -> pd.DataFrame:
        """All nodes as a DataFrame indexed by uid; times in ns, other nodes named by uid, absent values NA."""
        from tracelens_graph.nxview.frames import nodes_frame

        return nodes_frame(self)

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
        state = {name: getattr(self, name) for name in _STATE}
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
    state["columns"] = Columns(dict(state["columns"]))
    state["collectives"] = state.pop("collective_args")
    core = Core(**state, details=pickle.loads(details))
    if trace_id:
        core.__dict__["trace_id"] = trace_id
    graph: TraceGraph = TraceGraph(core)
    return graph


def load(
    source: Any, *, progress: Callable[[int, int], None] | None = None, processes: int | None = None
) -> TraceGraph:
    """Load a trace as a graph.

    Args:
        source: a path (`.json`, `.json.gz`, `.json.zst`, `.zip` or a saved graph, told apart by content), `-` for
            standard input, bytes, a file object, or parsed JSON (a dict with `traceEvents` or the list of events).
        progress: called with bytes done and bytes in all; by default a line on standard error, if that is a
            terminal and loading takes more than a second.
        processes: 1 to stay in this process; by default two for large files where that is safe.

    Raises:
        NotATraceError: it is something else; the message says what was found.
        TraceError: it cannot be read.
        MissingExtraError: `.json.zst` needs the extra `zstd`.

    Warns:
        DamagedTraceWarning: it was broken; the message counts what was repaired and what was lost.
    """
    with progress_on_terminal("loading") as shown:
        core = load_core(source, progress=progress or shown, processes=processes)
    if core.info.damage:
        warnings.warn(f"{core.info.source}: {core.info.damage}", DamagedTraceWarning, stacklevel=2)
    graph: TraceGraph = TraceGraph(core)
    return graph


def load_set(
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    *,
    database: Any = None,
    run: str = "",
    columns: Iterable[str] | None = None,
    processes: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> TraceSet:
    """Load several traces as a set: the ranks of a job, or runs to be compared.

    Files are loaded in as many processes as there are cores. What is no profiler trace is left out; a warning says so,
    and which ranks of a job are missing.

    Args:
        source: a folder, a pattern such as `traces/rank*.json.gz`, or several paths.
        database: instead of files, a `Database` or the address of one: the traces of a run in it, by rank and name.
        run: name of the run; of a database the one that is wanted.
        columns: load lean graphs, for a question that reads these columns of `schema.STORED` only.
        processes: how many load at a time.
        memory_bytes: graphs up to this size together are held in memory, the others mapped from temporary files that
            vanish with the set.
        progress: called with bytes done and bytes in all; by default a line on standard error, if that is a terminal.

    Raises:
        NotATraceError: no file is there.
        TraceError: none of the files is a trace that can be read.
        DatabaseError: the database cannot be reached, or has no such run.

    Warns:
        DamagedTraceWarning: a trace was broken or could not be read.
        IncompleteSetWarning: files were left out, or ranks are missing, doubled, or of another job.
    """
    if (source is None) == (database is None):
        raise TypeError("load_set takes files or database=..., one of them")
    if database is not None:
        return _from_database(database, run)
    named = [source] if isinstance(source, str | os.PathLike) else source
    assert named is not None
    files = trace_files(os.fspath(one) for one in named)
    with progress_on_terminal(f"loading {len(files):,} traces") as shown:
        traces = load_core_set(
            files, run=run, processes=processes, memory_bytes=memory_bytes, columns=columns, progress=progress or shown
        )
    for line in traces.notes:
        warnings.warn(line, IncompleteSetWarning, stacklevel=2)
    damaged = (f"{one.core.info.source}: {one.core.info.damage}" for one in traces if one.core.info.damage)
    for line in (*traces.broken, *damaged):
        warnings.warn(line, DamagedTraceWarning, stacklevel=2)
    return traces.with_graphs(TraceGraph)


def _from_database(database: Any, run: str) -> TraceSet:
    from tracelens_graph.database import Database, connect

    with ExitStack() as stack:
        graphs = database if isinstance(database, Database) else stack.enter_context(connect(database))
        there = [one for one in graphs.traces() if one["run"] == run and one["state"] == "complete"]
        if not there:
            raise DatabaseError(f"no run is called {run!r}; {hint(run, {one['run'] for one in graphs.traces()})}")
        members = (
            TraceMember(graphs.pull(one["id"]), one["name"], run, tuple(one.get("labels") or ())) for one in there
        )
        return TraceSet(members)


def from_networkx(graph: Any) -> TraceGraph:
    """A graph from a networkx one: from what `to_networkx()` made, changed or not, or from one built by hand.

    Nodes are uids with at least `kind`, `name`, `start_ns` and `dur_ns`; `pid`, `tid` and all other attributes of
    `Node.attributes()` are taken where given. Edges CALLS and LAUNCHES make the call forest (whatever the times
    say), CHARGED_TO and DEPENDS_ON are taken as they are, HAS_BACKWARD in addition to what sequence numbers say;
    all others are computed anew. In a DiGraph the type of an edge is its attribute `type`, in a MultiDiGraph its
    key. Context nodes are left out.

    Does not come back: access to the original events in the file, the arguments of collectives, and the spelling
    of the JSON of argument sets.

    Raises:
        TraceError: it is no such graph; the message names the node or edge.
    """
    rebuilt: TraceGraph = TraceGraph(rebuild(graph))
    return rebuilt
