"""`tracelens-graph cut`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.common import load
from tracelens_graph.cli.durations import to_ns, to_uid
from tracelens_graph.cli.options import CacheOption, Traces, Written
from tracelens_graph.cli.outputs import say_written, size_of
from tracelens_graph.output.files import is_stdout, replacing

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.stores.cut import Piece

_MARGIN_NS = 1_000_000


def cut(
    traces: Traces,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            show_default=False,
            help="File to write, .json or .json.gz; - for standard output.",
        ),
        Written(),
    ],
    uid: Annotated[
        str | None,
        typer.Option(metavar="UID", show_default=False, help="Around the event at this position of the file, from 0."),
    ] = None,
    step: Annotated[
        int | None, typer.Option(metavar="N", show_default=False, help="Around step N, of PyTorch ProfilerStep#N.")
    ] = None,
    collective: Annotated[
        str | None,
        typer.Option(
            metavar="N|KEY",
            show_default=False,
            help="Around the collective of this number or key, of all ranks: name their folder.",
        ),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", show_default=False, help="How much before and after it: 5ms, 200us, 1s. Default: 1ms."
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", show_default=False, help="From this time on, that of Perfetto UI."),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", show_default=False, help="Up to this time.")] = None,
    cache: CacheOption = False,
) -> None:
    """Cut a piece out of a trace, as a small trace that Perfetto UI opens.

    It holds whole events: all that overlap the time, the launches of GPU work in it with their callers, the steps and
    annotations around, and the arrows between them; of the event named, its GPU work, whenever it ran. A time without
    a unit is in microseconds. With --collective the file holds all ranks of a job, each as processes of its own, on one
    clock, and arrows join the kernels of a collective.

    Example: tracelens-graph cut trace.json.gz --uid 1234 --around 5ms -o cut.json.gz

    Example: tracelens-graph cut trace.json.gz --from 1.2s --to 1.3s -o cut.json.gz

    Example: tracelens-graph cut traces/ --collective 4 --around 500us -o collective4.json.gz
    """
    if not _is_stream(output) and not output.name.lower().endswith((".json", ".json.gz")):
        raise typer.BadParameter("--output: name a file .json or .json.gz, or - for standard output")
    between = from_ is not None or to is not None
    if (uid is not None) + (step is not None) + (collective is not None) + between != 1:
        raise typer.BadParameter("say what to cut out: one of --uid, --step, --collective, or --from and --to")
    if between and around is not None:
        raise typer.BadParameter("--around goes with --uid, --step or --collective")
    margin = _MARGIN_NS if around is None else to_ns(around, "--around")
    if collective is not None:
        if cache:
            raise typer.BadParameter("--cache keeps the graph of one trace, and --collective takes those of all ranks")
        from tracelens_graph.cli.cut_ranks import cut_collective

        return cut_collective(traces, collective, margin, output)
    if len(traces) > 1:
        raise typer.BadParameter("name one trace; several are for --collective")
    after = None if from_ is None else to_ns(from_, "--from")
    before = None if to is None else to_ns(to, "--to")
    if after is not None and before is not None and before < after:
        raise typer.BadParameter("--to: is before --from")
    position = None if uid is None else to_uid(uid, "--uid")
    core = load(traces[0], cache)
    lead = core.info.lead_ns
    after, before = (None if ns is None else ns - lead for ns in (after, before))
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.stores.cut import write_piece

    piece = _piece(core, position, step, margin, after, before)
    with progress_on_terminal("cutting") as progress, replacing(output) as file:
        events = write_piece(piece, file, packed=output.suffix.lower() == ".gz", progress=progress)
    begin, end = (core.info.shown_ms(ns) for ns in (piece.after_ns, piece.before_ns))
    say_written(
        f"wrote {output}: {events:,} events, {begin:,.3f} to {end:,.3f} ms{size_of(output)};"
        " to see it: ui.perfetto.dev, Open trace file",
        output,
    )


def _is_stream(output: Path) -> bool:
    return is_stdout(output) or (output.exists() and not output.is_file())


def _piece(core: Core, uid: int | None, step: int | None, margin: int, after: int | None, before: int | None) -> Piece:
    from tracelens_graph.graph.window import narrow, whole_window
    from tracelens_graph.schema import Kind
    from tracelens_graph.stores.cut import piece_around, piece_between

    if uid is not None:
        return piece_around(core, [core.row(uid)], margin)
    if step is not None:
        return piece_around(core, narrow(whole_window(core), step=step).rows_of_kind(Kind.Step).tolist(), margin)
    end = max(core.columns.end_ns, default=0)
    return piece_between(core, after or 0, end if before is None else before)
