"""What `db push` and `db export` share: which traces, what they are called, and how much of them is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.durations import to_ns
from tracelens_graph.cli.options import architecture_named
from tracelens_graph.cli.traces import load_set, traces_named
from tracelens_graph.errors import TraceError
from tracelens_graph.utils.texts import distinct_names

if TYPE_CHECKING:
    from tracelens_graph.db.image import Options, TraceImage
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.perf.devices import Architecture

Run = Annotated[
    str,
    typer.Option(
        metavar="NAME", show_default=False, help="Run that the traces are the ranks of; else each is its own."
    ),
]

As = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="NAME",
        show_default=False,
        help="Name of the trace, unique in its run; else that of its file, with folders as far as files are "
        "called alike.",
    ),
]

Label = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", show_default=False, help="What is to be known of it; may be given again."),
]

Only = Annotated[
    str,
    typer.Option(metavar="KINDS", show_default=False, help="Only events of these kinds: gpu,Op or host; with commas."),
]

MinGpuTime = Annotated[
    str,
    typer.Option(metavar="TIME", show_default=False, help="Leave out calls with less GPU time below them: 5us."),
]

WithArgs = Annotated[bool, typer.Option("--with-args", help="Take all recorded arguments of the events along.")]


@dataclass(frozen=True)
class Wanted:
    """Traces that a command was given.

    Attributes:
        files: where they are.
        name: what the only one is called; empty for the names of the files.
        run: name of the run of all of them; empty where each is its own.
        labels: `key=value`.
        options: what of them is taken.
        device: None for what the traces tell.
    """

    files: Sequence[str]
    name: str
    run: str
    labels: tuple[str, ...]
    options: Options
    device: Architecture | None

    def load(self) -> TraceSet:
        """The traces."""
        return load_set(self.files, self.run)

    def images(self, traces: TraceSet) -> Iterator[TraceImage]:
        """How the traces stand in a database, one after the other."""
        from tracelens_graph.db.database import image
        from tracelens_graph.db.image import Placement

        for trace in traces:
            placement = Placement(self.run or trace.core.trace_id, self.name or trace.name, self.labels)
            yield image(trace.core, placement, self.options, self.device)

    def check(self, traces: TraceSet) -> None:
        """Say that some could not be read, once the others are done.

        Raises:
            TraceError: some could not.
        """
        if traces.broken:
            raise TraceError(f"{len(traces.broken)} of {len(self.files)} traces could not be read; the others are done")


def wanted(
    traces: list[str],
    run: str,
    name: str,
    label: list[str] | None,
    only: str,
    min_gpu_time: str,
    with_args: bool,
    arch: str | None,
) -> Wanted:
    """What the arguments and options mean, before anything is read.

    Raises:
        typer.BadParameter: one of them is none.
    """
    files = traces_named(traces)
    return Wanted(
        files,
        _checked(files, name),
        run,
        _labels(label or []),
        _options(only, min_gpu_time, with_args),
        architecture_named(arch),
    )


def counts(image: TraceImage, seconds: float) -> str:
    """How much was written of a trace, for people; seconds 0 where nothing was to be done."""
    text = f"{image.properties['path']}: {image.properties['nodes']:,} events, {image.properties['edges']:,} edges"
    if seconds:
        text += f" in {seconds:.1f} s"
    if image.left_out_nodes:
        text += f"; left out {image.left_out_nodes:,} events and {image.left_out_edges:,} edges"
    if image.replaced:
        text += f"; {image.replaced:,} characters that no database can hold are U+FFFD"
    return text


def _checked(files: Sequence[str], name: str) -> str:
    """The name that was given, if every file has one of its own.

    Raises:
        typer.BadParameter: one name is given for several files, or several would have one.
    """
    if name and len(files) > 1:
        raise typer.BadParameter(f"--as is for one trace, and these are {len(files)}")
    count = Counter(distinct_names(files))
    if twice := [one for one, times in count.items() if times > 1]:
        raise typer.BadParameter(f"several files would be called {twice[0]}: push them one by one with --as")
    return name


def _labels(given: Sequence[str]) -> tuple[str, ...]:
    keys = [label.partition("=")[0] for label in given]
    for label, key in zip(given, keys, strict=True):
        if "=" not in label or not key:
            raise typer.BadParameter(f"--label {label}: it has the form KEY=VALUE")
        if keys.count(key) > 1:
            raise typer.BadParameter(f"--label: {key} is given twice")
    return tuple(sorted(given))


def _options(only: str, min_gpu_time: str, with_args: bool) -> Options:
    from tracelens_graph.db.image import Options
    from tracelens_graph.errors import NodeNotFoundError
    from tracelens_graph.graph.graph import kinds_named
    from tracelens_graph.schema import Kind

    try:
        wanted = kinds_named([one.strip() for one in only.split(",")]) if only else list(Kind)
    except NodeNotFoundError as error:
        raise typer.BadParameter(f"--only: {error}") from None
    kinds = tuple(kind.name for kind in Kind if kind in wanted)
    return Options(kinds, to_ns(min_gpu_time, "--min-gpu-time") if min_gpu_time else 0, with_args)
