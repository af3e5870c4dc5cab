"""`tracelens-graph db push`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.common import load
from tracelens_graph.cli.db.connection import Database, Uri, User, connection
from tracelens_graph.cli.durations import to_ns
from tracelens_graph.cli.traces import SUFFIXES, traces_named
from tracelens_graph.stores.neo4j.connection import DEFAULT_DATABASE, DEFAULT_USER

if TYPE_CHECKING:
    from tracelens_graph.perf.architecture import Architecture
    from tracelens_graph.stores.neo4j.image import Image, Options


def push(
    traces: Annotated[
        list[str],
        typer.Argument(metavar="TRACE...", show_default=False, help="Traces, saved graphs, folders or patterns."),
    ],
    uri: Uri = None,
    user: User = DEFAULT_USER,
    database: Database = DEFAULT_DATABASE,
    run: Annotated[
        str,
        typer.Option(
            metavar="NAME", show_default=False, help="Run that the traces are the ranks of; else each is its own."
        ),
    ] = "",
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Name of the trace, unique in its run; else that of its file, with folders as far as files are "
            "called alike.",
        ),
    ] = "",
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", show_default=False, help="What is to be known of it; may be given again."),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            metavar="KINDS", show_default=False, help="Only events of these kinds: gpu,Op or host; with commas."
        ),
    ] = "",
    min_gpu_time: Annotated[
        str,
        typer.Option(metavar="TIME", show_default=False, help="Leave out calls with less GPU time below them: 5us."),
    ] = "",
    with_args: Annotated[
        bool, typer.Option("--with-args", help="Take all recorded arguments of the events along.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Where a trace is there already, drop it and push it anew.")
    ] = False,
    arch: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE|auto", help="The device: a name such as h100-sxm, a file, or auto for that of the trace."
        ),
    ] = "auto",
) -> None:
    """Push traces into a Neo4j database.

    Stopped at any point, the same command goes on. What is there already is left as it is.

    Example: tracelens-graph db push trace.json.gz --run llama-70b --label commit=3f2a9c

    Example: tracelens-graph db push traces/ --run llama-70b --only gpu,Op --min-gpu-time 5us
    """
    from tracelens_graph.database import Database as Graphs
    from tracelens_graph.database import image
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.reports.terminal import printable, shorten
    from tracelens_graph.stores.neo4j.image import Placement

    files = traces_named(traces)
    names = _names(files, name)
    labels = _labels(label or [])
    options = _options(only, min_gpu_time, with_args)
    device = _device(arch)
    with Graphs(connection(uri, user, database)) as graphs:
        graphs.traces()  # a server that does not answer is to be known before a large trace is read
        for file, called in zip(files, names, strict=True):
            core = load(file)
            placement = Placement(run or core.trace_id, called, labels)
            pushed = image(core, placement, options, device)
            del core
            start = time.monotonic()
            with progress_on_terminal(f"pushing {shorten(printable(called), 40)}", unit="rows") as progress:
                outcome = graphs.push_image(pushed, replace=replace, progress=progress)
            typer.echo(printable(_line(outcome, pushed, time.monotonic() - start)))


def _line(outcome: str, image: Image, seconds: float) -> str:
    """What became of a trace."""
    trace = image.trace
    text = f"{outcome} {trace['path']}: {trace['nodes']:,} events, {trace['edges']:,} edges"
    if outcome != "unchanged":
        text += f" in {seconds:.1f} s"
    if image.left_out_nodes:
        text += f"; left out {image.left_out_nodes:,} events and {image.left_out_edges:,} edges"
    if image.replaced:
        text += f"; {image.replaced:,} characters that no database can hold are U+FFFD"
    return text


def _names(files: Sequence[str], name: str) -> list[str]:
    """A name for each file: without suffixes, and with as many folders as tell it from the others.

    Raises:
        typer.BadParameter: one name is given for several files.
    """
    if name:
        if len(files) > 1:
            raise typer.BadParameter(f"--name is for one trace, and these are {len(files)}")
        return [name]
    parts = [("stdin",) if file == "-" else _parts(file) for file in files]
    lengths = [1] * len(files)
    while True:
        names = ["/".join(part[-length:]) for part, length in zip(parts, lengths, strict=True)]
        count = Counter(names)
        alike = [i for i, one in enumerate(names) if count[one] > 1 and lengths[i] < len(parts[i])]
        if not alike:
            break
        for i in alike:
            lengths[i] += 1
    if twice := [one for one, times in count.items() if times > 1]:
        raise typer.BadParameter(f"several files would be called {twice[0]}: push them one by one with --name")
    return names


def _parts(file: str) -> tuple[str, ...]:
    path = Path(file).absolute()
    suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), path.suffix)
    return (*path.parts[1:-1], path.name.removesuffix(suffix) or path.name)


def _labels(given: Sequence[str]) -> tuple[str, ...]:
    keys = [label.partition("=")[0] for label in given]
    for label, key in zip(given, keys, strict=True):
        if "=" not in label or not key:
            raise typer.BadParameter(f"--label {label}: it has the form KEY=VALUE")
        if keys.count(key) > 1:
            raise typer.BadParameter(f"--label: {key} is given twice")
    return tuple(sorted(given))


def _options(only: str, min_gpu_time: str, with_args: bool) -> Options:
    from tracelens_graph.errors import NodeNotFoundError
    from tracelens_graph.graph.core import kinds_named
    from tracelens_graph.schema import Kind
    from tracelens_graph.stores.neo4j.image import Options

    try:
        wanted = kinds_named([one.strip() for one in only.split(",")]) if only else list(Kind)
    except NodeNotFoundError as error:
        raise typer.BadParameter(f"--only: {error}") from None
    kinds = tuple(kind.name for kind in Kind if kind in wanted)
    return Options(kinds, to_ns(min_gpu_time, "--min-gpu-time") if min_gpu_time else 0, with_args)


def _device(arch: str) -> Architecture | None:
    if arch == "auto":
        return None
    from tracelens_graph.perf.architecture import architecture

    return architecture(arch)
