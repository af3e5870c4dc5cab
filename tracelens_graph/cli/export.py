"""`tracelens-graph export` and `save`: a graph, or what is known of its GPU time, in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from tracelens_graph.cli.cut import TO_SEE, clocks_at, written
from tracelens_graph.cli.options import ExecutionTraceFile, Trace, Traces, option, refuse
from tracelens_graph.cli.outputs import Content, Forms, Outputs, Writes, size_of, streamed
from tracelens_graph.cli.traces import load, load_set, say, traces_named
from tracelens_graph.utils.texts import file_name, stem

if TYPE_CHECKING:
    import numpy as np

    from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.graph import Graph
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.reports.tracks import Counter, JobTracks, Others, Track

_GRAPHS = ("graphml", "graphml.gz", "parquet", "csv")
_GPU_TIME = ("folded", "perfetto", "speedscope")
_PLACES = 1000
"""Numbers between the places of processes of one rank and those of the next, as `write_ranks` has them."""


def save(
    trace: Trace,
    *,
    outputs: Annotated[Outputs, Writes("tlg", needed=True)],
    et: ExecutionTraceFile = None,
    rank: Annotated[
        str | None,
        option(metavar="N", help="Only this rank of a file or folder of several, with the uids of its report."),
    ] = None,
) -> None:
    """Save the graph of a trace to one file that opens again in an instant.

    Every command takes such a file like a trace. With --et the file also holds the links between the two.

    Example: tracelens-graph save trace.json.gz -o trace.tlg

    Example: tracelens-graph save trace.json.gz --et execution-trace.json.gz -o linked.tlg

    Example: tracelens-graph save report.sqlite --rank 1 -o rank1.tlg
    """
    if rank is None:
        save_graphs(load(trace, needs_times=False, et=et), outputs)
        return
    from tracelens_graph.graph.ranks import rank_called

    files = traces_named([trace])
    refuse((et, "--et goes without --rank"), (len(files) < 2, f"--rank takes several ranks; {trace} is of one"))
    traces = load_set(files)
    save_graphs(traces[rank_called(traces, rank)].core, outputs)


def save_graphs(core: Core, outputs: Outputs) -> None:
    """Save a graph to the files that are asked for."""
    from tracelens_graph.stores.graph_file import write_graph
    from tracelens_graph.tables.terminal import progress_on_terminal

    for path, _ in outputs.files:
        with progress_on_terminal("saving") as progress:
            write_graph(core, path, progress)
        outputs.say(f"wrote {path}{size_of(path)}: {len(core.columns):,} nodes")


def export(
    traces: Traces,
    *,
    outputs: Annotated[Outputs, Writes(*_GRAPHS, *_GPU_TIME, screen="")],
    rank: Annotated[
        str | None,
        option(metavar="N", help="Only this rank of several traces, with what the others show of its waits."),
    ] = None,
) -> None:
    """Write the graph, or its GPU time, for other programs.

    graphml, parquet and csv hold the graph, its nodes and edges with all their properties. GraphML is one file. Parquet
    and CSV are two: from trace.csv they are trace-nodes.csv and trace-edges.csv; with -f, FILE is a folder for them.

    folded (for flamegraph.pl) and speedscope (for speedscope.app) hold GPU time by module, op, line of Python and
    kernel. perfetto is the trace again, for ui.perfetto.dev, with tracks about GPU work. A file whose name ends with
    .gz is compressed.

    For the ranks of a job, perfetto takes several traces and writes all into one file on one clock, or one with --rank.
    Their collectives show who waited for whom, and the critical path is that of the job.

    Example: tracelens-graph export trace.json.gz -o trace.graphml

    Example: tracelens-graph export trace.json.gz -o gpu.speedscope.json -o stacks.folded

    Example: tracelens-graph export trace.json.gz -o with-tracks.json.gz

    Example: tracelens-graph export ranks/ -o all-ranks.json.gz
    """
    refuse((not outputs.formats, "say what to write: -o FILE, whose suffix says the format, or -f FORMAT"))
    if not outputs.files:
        outputs = Outputs(files=((Path("-"), outputs.format),))
    for path, name in outputs.files:
        if name in _GRAPHS:
            from tracelens_graph.stores.export import export_format

            export_format(path, name)
    files = _files(traces, outputs, rank)
    if len(files) > 1:
        outputs.write((files, rank), {"perfetto": _of_ranks})
        return
    core = load(files[0])
    for path, name in outputs.files:
        if name in _GRAPHS:
            _write_graph(core, path, name, outputs)
        else:
            outputs.write_file(path, _FORMS[name](core))


def _files(traces: list[str], outputs: Outputs, rank: str | None) -> list[str]:
    """The traces that are named; several, where what is to be written can be of several.

    Raises:
        typer.BadParameter: it cannot.
    """
    is_perfetto = "perfetto" in outputs.formats
    is_lone = len(traces) == 1 and (not is_perfetto or not (Path(traces[0]).is_dir() or has_magic(traces[0])))
    files = traces if is_lone else traces_named(traces)
    refuse(
        (len(files) > 1 and {*outputs.formats} != {"perfetto"},
         f"perfetto alone takes several traces; the others take one, not {len(files)}"),
        (rank is not None and len(files) < 2, "--rank takes the traces of all ranks, such as their folder"),
    )  # fmt: skip
    return files


def _write_graph(core: Graph, path: Path, format: str, outputs: Outputs) -> None:
    from tracelens_graph.stores.export import export_graph

    done = export_graph(core, path, format)
    for one in done.paths:
        outputs.say(f"wrote {one}")
    outputs.say(f"{done.nodes:,} nodes, {done.edges:,} edges")
    if done.replaced:
        outputs.say(f"{done.replaced:,} characters that the format cannot hold were replaced")


# --- of one trace ----------------------------------------------------------------------------------------------------


def _folded(core: Graph, file: BinaryIO) -> str:
    from tracelens_graph.reports.folded import write_folded

    stacks = f"{write_folded(core.everything, file):,} stacks, {_time_of(core)} in ns"
    return f"{stacks}; to see it: flamegraph.pl --countname ns, or speedscope.app"


def _speedscope(core: Graph, file: BinaryIO) -> str:
    from tracelens_graph.reports.folded import write_speedscope

    rank = "" if core.info.rank is None else f", rank {core.info.rank}"
    title = f"{'GPU' if len(core.gpu_rows) else 'Host'} time of {stem(file_name(core.info.source))}{rank}"
    frames = f"{write_speedscope(core.everything, title, file):,} frames, {_time_of(core)}"
    return f"{frames}; to see it: speedscope.app, Browse"


def _time_of(core: Graph) -> str:
    if not len(core.gpu_rows):
        return "host time"
    return f"{core.columns.dur_ns[core.gpu_rows].sum() / 1e6:,.3f} ms of GPU time"


def _perfetto(core: Graph, file: BinaryIO) -> str:
    if core.collectives.nodes and core.info.world_size != 1:
        say(["waits in collectives need the traces of the other ranks: name their folder, with --rank for one of them"])
    entries, tracks = _write_tracks(core, None, file)
    return f"{entries} of the trace, {tracks} beside them; {TO_SEE}"


def _write_tracks(core: Core, others: Others | None, file: BinaryIO) -> tuple[str, str]:
    """Write a trace again with tracks of what is known of it; how many entries of its own and of ours these are.

    Args:
        core: its graph.
        others: what the traces of the other ranks show of it; None without these.
        file: where to.
    """
    from tracelens_graph.graph.window import whole_window
    from tracelens_graph.loaders.kineto.times import origin_ns
    from tracelens_graph.output.files import GENERATOR
    from tracelens_graph.reports.tracks import counters, track_entries, tracks
    from tracelens_graph.stores.cut import entries, whole, write_entries
    from tracelens_graph.tables.terminal import progress_on_terminal

    with progress_on_terminal("copying") as progress:
        texts = entries(whole(core), progress)
    w = whole_window(core)
    found, beside = tracks(w, others), list(counters(w))
    ours = track_entries(w, [*found, *beside], origin_ns(core))
    write_entries([*texts, *ours], {**core.info.metadata, "generator": GENERATOR}, file)
    return f"{len(texts):,} entries", f"{len(found)} tracks and {len(beside)} counters of {len(ours):,} entries"


_FORMS: Forms = {"folded": streamed(_folded), "speedscope": streamed(_speedscope), "perfetto": streamed(_perfetto)}


# --- of the ranks of a job -------------------------------------------------------------------------------------------


def _of_ranks(asked: tuple[Sequence[str], str | None]) -> Content:
    """What writes the ranks of a job: files, and the one rank to write, by its number or the name of its trace.

    Raises:
        AnalysisError: there is no such rank.
    """
    from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
    from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
    from tracelens_graph.graph.ranks import rank_called
    from tracelens_graph.reports.tracks import JobTracks

    files, rank = asked
    traces = load_set(files).by_rank()
    place = None if rank is None else rank_called(traces, rank)
    matched = MatchedCollectives(traces)
    say(notes_on_matching(matched))
    job = JobTracks(traces, matched)
    return partial(_write_all, traces, matched, job) if place is None else partial(_write_one, traces, job, place)


def _write_one(traces: TraceSet, job: JobTracks, place: int, file: BinaryIO) -> str:
    entries, tracks = _write_tracks(traces[place].core, job.of(place, is_alone=True), file)
    text = f"{entries} of {job.titles[place]}, {tracks} beside them by what all {len(traces):,} ranks show"
    return f"{text}; {TO_SEE}"


def _write_all(traces: TraceSet, matched: MatchedCollectives, job: JobTracks, file: BinaryIO) -> str:
    from tracelens_graph.stores.cut import whole
    from tracelens_graph.stores.ranks_cut import RankPiece

    pieces = {
        place: RankPiece(title, whole(one.core), partial(matched.clock_ns, place))
        for place, (one, title) in enumerate(zip(traces, job.titles, strict=True))
    }
    moment = int(matched.first_start_ns[0]) if len(matched) else 0
    about: dict[str, object] = {"ranks": clocks_at(moment, traces, matched, pieces)}
    count = written(
        traces, matched, pieces, file, "copying", about, lambda *place: list(_beside(traces, matched, job, *place))
    )
    return f"{count:,} entries of {len(pieces):,} ranks on one clock, with tracks of each and of the job; {TO_SEE}"


def _beside(traces: TraceSet, matched: MatchedCollectives, job: JobTracks, first_ns: int, free: int) -> Iterator[bytes]:
    """The tracks of the job and of each rank, as processes of their own above those of the rank."""
    from tracelens_graph.graph.window import whole_window
    from tracelens_graph.output.files import TOOL
    from tracelens_graph.reports.tracks import KNOWN, counters, process_entries, tracks

    def on_file(place: int, times_ns: np.ndarray) -> np.ndarray:
        return matched.clock_ns(place, times_ns) - first_ns

    path = job.path()
    if path.slices:
        yield from process_entries([path], free, f"{TOOL}: the job", -2, lambda times: times - first_ns)
    for place, one in enumerate(traces):
        w = whole_window(one.core)
        found: list[Track | Counter] = [*tracks(w, job.of(place, is_alone=False)), *counters(w)]
        title = f"{job.titles[place]}, {TOOL}: {KNOWN}"
        yield from process_entries(found, free + 1 + place, title, _PLACES * place - 1, partial(on_file, place))
