"""What Python users call first: load a trace or several, compare two, take in a networkx graph."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.host_work import comparable
from tracelens_graph.errors import (
    AnalysisError,
    DamagedTraceWarning,
    DatabaseError,
    IncompleteSetWarning,
    NotATraceError,
)
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceMember
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.many import MEMORY_BYTES, load_core_set
from tracelens_graph.loading.one import link_damage, load_core
from tracelens_graph.nxview.ranks import TraceGraphSet
from tracelens_graph.nxview.rebuild import rebuild
from tracelens_graph.nxview.trace_diff import TraceDiff
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.tables.terminal import progress_on_terminal
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import distinct_names


def load(
    source: Any,
    *,
    et: Any = None,
    memory: Any = None,
    capture: Any = None,
    identify: bool = False,
    like: Any = None,
    generic: bool = False,
    progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
) -> TraceGraph:
    """Load a trace as a graph.

    Args:
        source: a path (`.json`, `.json.gz`, `.json.zst`, `.zip`, `.xplane.pb`, a report of Nsight Systems or of AMD's
            profilers, or a saved graph, known by content; a folder as `jax.profiler` writes it), `-` for standard
            input, bytes, a file object, or parsed JSON (a dict with `traceEvents` or the list of events).
        et: the execution trace of the same run, given like `source`: the graph is linked with it (`g.link`), and takes
            from it arguments of ops and collectives that the trace does not record.
        memory: a snapshot of CUDA memory (`torch.cuda.memory._dump_snapshot`) that was taken in the same run: its
            allocations stand in the graph as if they had been recorded with the trace.
        capture: folder or trace of the captures of the graphs that it replays, or several of these: replayed kernels
            get the ops, shapes and modules that were recorded there.
        identify: infer what replayed kernels are that no capture describes, from their names and order: they get
            modules by layer, and ops by role. A warning says where nothing was identified.
        like: another trace of the same model which knows ops (eager, of another platform or batch size, or a capture),
            given like `source` or as a graph: kernels at places that it has get its modules, ops and shapes.
        generic: read events of other tools' Chrome traces as functions of the host.
        progress: called with bytes done and bytes in all; by default a line on standard error, if that is a
            terminal and loading takes more than a second.
        processes: 1 to stay in this process; by default two for large files where that is safe.

    Raises:
        NotATraceError: it is something else; the message says what was found.
        TraceError: it cannot be read.
        LinkError: the execution trace is of another program or rank, no graph was captured in the captures, or the
            snapshot is of another time.
        MissingExtraError: `.json.zst` needs the extra `zstd`.

    Warns:
        DamagedTraceWarning: it was broken; the message counts what was repaired and what was lost.
    """
    with progress_on_terminal("loading") as shown:
        unused: list[str] = []
        if generic:
            source = open_source(source)
            source.is_generic = True
        core = load_core(
            source, et=et, memory=memory, capture=capture, identify=identify if like is None else like,
            tell=unused.append, progress=progress or shown, processes=processes,
        )  # fmt: skip
    for line in unused:
        warnings.warn(line, IncompleteSetWarning, stacklevel=2)
    if core.info.damage:
        warnings.warn(f"{core.info.source}: {core.info.damage}", DamagedTraceWarning, stacklevel=2)
    if et is not None and (damage := link_damage(core)):
        warnings.warn(damage, DamagedTraceWarning, stacklevel=2)
    graph: TraceGraph = TraceGraph(core)
    return graph


def diff(
    a: Core | Window | str | os.PathLike[str],
    b: Core | Window | str | os.PathLike[str],
    *,
    names: tuple[str, str] | None = None,
) -> TraceDiff:
    """Compare two traces by structure: align their call trees, and show where GPU time changed, and why.

    Of graphs in which steps are marked, a step of median GPU time of each is compared; `g.window()` takes the whole
    trace, `g.window(step=7)` another step.

    Where one of them holds no GPU work, the host time of ops is compared in its place, each op's own time.

    Args:
        a, b: graphs, windows of them, or paths of traces.
        names: what to call them; by default the names of their files.

    Raises:
        AnalysisError: one of them holds neither GPU work nor ops, or the names are not two different texts.
        NotATraceError, TraceError: as `load`.
        TypeError: one of them is something else.
    """
    graphs = [load(one) if isinstance(one, str | os.PathLike) else one for one in (a, b)]
    for one in graphs:
        if not isinstance(one, Core | Window):
            raise TypeError(f"a graph, a window or a path is needed, not {type(one).__name__}")
    if names is not None and (isinstance(names, str) or len({*names}) != 2 or len(names) != 2):
        raise AnalysisError(f"names={names!r}: two different names are needed")
    one, other = comparable(window_of(graphs[0]), window_of(graphs[1]))
    windows = (one, other) if any(isinstance(graph, Window) for graph in graphs) else median_steps(one, other)
    first, second = distinct_names([window.core.info.source for window in windows])
    found: TraceDiff = TraceDiff(*windows, names or (("A", "B") if first == second else (first, second)))
    return found


def load_set(
    *sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    database: Any = None,
    run: str = "",
    columns: Iterable[str] | None = None,
    processes: int | None = None,
    scheduler: str | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Callable[[int, int], None] | None = None,
    capture: Any = (),
    identify: bool = False,
    like: Any = None,
) -> TraceGraphSet:
    """Load several traces as a set: the ranks of a job, or runs to be compared.

    Files are loaded in as many processes as there are cores. What is no profiler trace is left out; a warning says so,
    and which ranks of a job are missing. Execution traces among the files are linked with the traces of their ranks
    (`TraceSet.linked` says so in one line): what does not fit is left out with a warning.

    Args:
        sources: folders, patterns such as `traces/rank*.json.gz`, paths, or lists of these.
        database: instead of files, a `Database` or the address of one: the traces of a run in it, by rank and name.
        run: name of the run; of a database the one that is wanted.
        columns: load lean graphs, for a question that reads these columns of `schema.STORED` only.
        processes: how many load at a time.
        scheduler: address of a Dask scheduler, such as `tcp://node1:8786`: its workers load, which have to see the
            files under the same paths. Needs the extra `dask`.
        memory_bytes: graphs up to this size together are held in memory, the others mapped from temporary files that
            vanish with the set.
        progress: called with bytes done and bytes in all; by default a line on standard error, if that is a terminal.
        capture: folder or trace of captures that each trace is joined with, or several of these, as for `load`.
        identify: infer what replayed kernels are that no capture describes, as for `load`.
        like: path of another trace of the same model, as for `load`.

    Raises:
        NotATraceError: no file is there, or something among them is no path.
        TraceError: none of the files is a trace that can be read.
        DatabaseError: the database cannot be reached, or has no such run.
        AnalysisError: there is no such column, or another argument makes no sense.
        ClusterError: the scheduler cannot be reached, or its workers cannot load.
        MissingExtraError: Dask is not installed.

    Warns:
        DamagedTraceWarning: a trace was broken or could not be read.
        IncompleteSetWarning: files were left out, or ranks are missing, doubled, or of another job.
    """
    if bool(sources) == (database is not None):
        raise TypeError("load_set takes files or database=..., one of them")
    if database is not None:
        return _from_database(database, run)
    left_out: list[str] = []
    files = trace_files(_paths(sources), tell=left_out.append)
    with progress_on_terminal(f"loading {len(files):,} traces") as shown:
        traces = load_core_set(
            files, run=run, processes=processes, scheduler=scheduler, memory_bytes=memory_bytes, columns=columns,
            progress=progress or shown, capture=[*_paths([capture])], identify=identify if like is None else like,
        )  # fmt: skip
    traces.notes = (*left_out, *traces.notes)
    for line in traces.notes:
        warnings.warn(line, IncompleteSetWarning, stacklevel=2)
    damaged = (f"{one.core.info.source}: {one.core.info.damage}" for one in traces if one.core.info.damage)
    for line in (*traces.broken, *damaged):
        warnings.warn(line, DamagedTraceWarning, stacklevel=2)
    return TraceGraphSet.of(traces.with_graphs(TraceGraph))


def _paths(sources: Iterable[Any]) -> Iterator[str]:
    """Paths as text; those of lists one by one."""
    for one in sources:
        if isinstance(one, str | os.PathLike):
            yield os.fsdecode(one)
        elif isinstance(one, Iterable) and not isinstance(one, bytes | Mapping):
            yield from _paths(one)
        else:
            raise NotATraceError(f"load_set takes paths of traces, not {type(one).__name__}")


def _from_database(database: Any, run: str) -> TraceGraphSet:
    from tracelens_graph.db.database import Database, connect
    from tracelens_graph.db.labels import texts_of

    with ExitStack() as stack:
        graphs = database if isinstance(database, Database) else stack.enter_context(connect(database))
        there = [one for one in graphs.traces() if one["run"] == run and one["state"] == "complete"]
        if not there:
            raise DatabaseError(f"no run is called {run!r}; {hint(run, {one['run'] for one in graphs.traces()})}")
        members = (TraceMember(graphs.pull(one["id"]), one["name"], run, texts_of(one)) for one in there)
        return TraceGraphSet(members)


def from_networkx(graph: Any) -> TraceGraph:
    """A graph from a networkx graph that `to_networkx()` made (changed or not) or that was built by hand.

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
