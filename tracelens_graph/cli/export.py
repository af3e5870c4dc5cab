"""`tracelens-graph export`."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from tracelens_graph.cli.common import load
from tracelens_graph.cli.options import CacheOption, Traces, Written
from tracelens_graph.cli.outputs import say_written, size_of
from tracelens_graph.cli.traces import say, traces_named
from tracelens_graph.output.files import is_stdout, replacing
from tracelens_graph.output.markers import GENERATOR
from tracelens_graph.utils.texts import file_name, stem

if TYPE_CHECKING:
    from tracelens_graph.graph.graph import Graph


@dataclass(frozen=True)
class _Way:
    """A way to write what is known of a graph to one file.

    Attributes:
        write: writes it, and says what was written.
        seen: how to look at it.
    """

    write: Callable[[Graph, BinaryIO], str]
    seen: str


def export(
    traces: Traces,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            show_default=False,
            help="The graph: a file .graphml, .graphml.gz, .parquet or .csv, or with --format a folder.",
        ),
        Written(is_folder=True),
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", "-f", show_default=False, help="The format, if PATH does not tell.")
    ] = None,
    speedscope: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="GPU time by module, op, line of Python and kernel, for speedscope.app: .json or .json.gz.",
        ),
        Written((".json", ".gz")),
    ] = None,
    folded: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="GPU time in ns as folded stacks (pass;module;op;kernel), for flamegraph.pl: .folded or .folded.gz.",
        ),
        Written((".folded", ".gz")),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="The trace again, with tracks of what is known of GPU work, for ui.perfetto.dev: .json or .json.gz.",
        ),
        Written((".json", ".gz")),
    ] = None,
    rank: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            show_default=False,
            help="With --perfetto, of several traces: only this rank, with what the others tell of its waits.",
        ),
    ] = None,
    cache: CacheOption = False,
) -> None:
    """Write the graph, or what is known of its GPU time, for other programs.

    The graph (-o) is its nodes and edges with all their properties. GraphML is one file. Parquet and CSV are two: from
    trace.csv they are trace-nodes.csv and trace-edges.csv. A file whose name ends with .gz is compressed.

    Of the ranks of a job --perfetto takes several traces: all go into one file on one clock, or one with --rank. Their
    collectives show who waited for whom, and the critical path is that of the job.

    Example: tracelens-graph export trace.json.gz -o trace.graphml

    Example: tracelens-graph export trace.json.gz --speedscope speedscope.json --folded stacks.folded

    Example: tracelens-graph export trace.json.gz --perfetto with-tracks.json.gz

    Example: tracelens-graph export ranks/ --perfetto all-ranks.json.gz
    """
    ways = ((folded, _FOLDED), (speedscope, _SPEEDSCOPE), (perfetto, _PERFETTO))
    wanted = [(path, way) for path, way in ways if path is not None]
    if output is None and not wanted:
        raise typer.BadParameter("say what to write: --output, --folded, --speedscope, --perfetto")
    if output is None and format is not None:
        raise typer.BadParameter("--format goes with --output")
    if output is not None:
        from tracelens_graph.stores.export import export_format

        export_format(output, format)
    files = _files(traces, [output, folded, speedscope], perfetto, rank, cache)
    # What goes to standard output has it for itself.
    is_quiet = any(path is not None and is_stdout(path) for path in (output, *(path for path, _ in wanted)))
    if len(files) > 1:
        assert perfetto is not None
        _write_ranks(files, rank, perfetto)
        return
    core = load(files[0], cache)
    if output is not None:
        _graph(core, output, format, is_quiet)
    for path, way in wanted:
        with _opened(path, way) as file:
            said = way.write(core, file)
        if not is_quiet:
            say_written(f"wrote {path}: {said}{size_of(path)}; to see it: {way.seen}", path)


def _files(
    traces: list[str], of_one: list[Path | None], perfetto: Path | None, rank: str | None, cache: bool
) -> list[str]:
    """The traces that are named; several, where what is to be written can be of several.

    Raises:
        typer.BadParameter: it cannot.
    """
    is_lone = len(traces) == 1 and (perfetto is None or not (Path(traces[0]).is_dir() or has_magic(traces[0])))
    files = traces if is_lone else traces_named(traces)
    if len(files) > 1 and (perfetto is None or any(path is not None for path in of_one)):
        raise typer.BadParameter(f"--perfetto alone takes several traces; the others take one, not {len(files)}")
    if len(files) > 1 and cache:
        raise typer.BadParameter("--cache takes one trace")
    if rank is not None and len(files) < 2:
        raise typer.BadParameter("--rank goes with --perfetto and the traces of all ranks, such as their folder")
    return files


def _write_ranks(files: list[str], rank: str | None, output: Path) -> None:
    from tracelens_graph.cli.export_ranks import ExportedRanks

    ranks = ExportedRanks(files, rank)
    with _opened(output, _PERFETTO) as file:
        said = ranks.write(file)
    say_written(f"wrote {output}: {said}{size_of(output)}; to see it: {_PERFETTO.seen}", output)


def _graph(core: Graph, output: Path, format: str | None, is_quiet: bool) -> None:
    from tracelens_graph.stores.export import export_graph

    done = export_graph(core, output, format)
    if is_quiet:
        return
    for path in done.paths:
        say_written(f"wrote {path}", output)
    say_written(f"{done.nodes:,} nodes, {done.edges:,} edges", output)
    if done.replaced:
        say_written(f"{done.replaced:,} characters that the format cannot hold were replaced", output)


@contextmanager
def _opened(path: Path, way: _Way) -> Iterator[BinaryIO]:
    """A file to write, compressed if its name says so."""
    with replacing(path) as file:
        if path.suffix.lower() != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            yield packed  # type: ignore[misc]


def _folded(core: Graph, file: BinaryIO) -> str:
    from tracelens_graph.reports.folded import write_folded

    return f"{write_folded(core.everything, file):,} stacks, {_gpu_ms(core)} of GPU time in ns"


def _speedscope(core: Graph, file: BinaryIO) -> str:
    from tracelens_graph.reports.speedscope import write_speedscope

    return f"{write_speedscope(core.everything, _title(core), file):,} frames, {_gpu_ms(core)} of GPU time"


def _perfetto(core: Graph, file: BinaryIO) -> str:
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.reports.tracks import track_entries, tracks
    from tracelens_graph.stores.cut import entries, origin_ns, whole, write_entries

    with progress_on_terminal("copying") as progress:
        texts = entries(whole(core), progress)
    if core.collectives.nodes and core.info.world_size != 1:
        say(["waits in collectives need the traces of the other ranks: name their folder, with --rank for one of them"])
    found = tracks(core.everything)
    ours = track_entries(core.everything, found, origin_ns(core))
    write_entries([*texts, *ours], {**core.info.metadata, "generator": GENERATOR}, file, packed=False)
    return f"{len(texts):,} entries of the trace, {len(found)} tracks of {len(ours):,} entries beside them"


def _title(core: Graph) -> str:
    rank = "" if core.info.rank is None else f", rank {core.info.rank}"
    return f"GPU time of {stem(file_name(core.info.source))}{rank}"


def _gpu_ms(core: Graph) -> str:
    return f"{core.columns.dur_ns[core.gpu_rows].sum() / 1e6:,.3f} ms"


_FOLDED = _Way(_folded, "flamegraph.pl --countname ns, or speedscope.app")
_PERFETTO = _Way(_perfetto, "ui.perfetto.dev, Open trace file")
_SPEEDSCOPE = _Way(_speedscope, "speedscope.app, Browse")
