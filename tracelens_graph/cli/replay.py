"""`tracelens-graph replay`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tracelens_graph.cli.options import (
    NO_ARCH,
    TO_FOLDER,
    Arch,
    ExecutionTraceFile,
    Extensions,
    TableName,
    argument,
    name_wanted,
    option,
    to_uid,
)
from tracelens_graph.cli.outputs import Outputs, Writes
from tracelens_graph.cli.replay_asked import ROWS, Asked
from tracelens_graph.cli.replay_work import check_is_no_folder, compare_results, replay_trace, verify_folder
from tracelens_graph.cli.shown import TABLE
from tracelens_graph.cli.windows import Window
from tracelens_graph.utils.suggest import hint

TABLES = ("replay_signatures", "replay_coverage")
_OF_RESULTS = ("replay_devices", "replay_results")


class By(StrEnum):
    """What operations are chosen by."""

    gpu_time = "gpu-time"
    below_roof = "below-roof"


def replay(
    given: Annotated[
        list[str],
        argument(
            metavar="TRACE",
            help="Trace, saved graph, or - for stdin; with --verify a folder of programs; with --compare results; with "
            "--from-database a trace in it.",
        ),
    ],
    *,
    op: Annotated[
        str | None,
        option(
            metavar="NAME|/REGEX/",
            help="Operations of this name; between slashes, names in which the regular expression is found.",
        ),
    ] = None,
    uid: Annotated[
        str | None,
        option(metavar="UID", help="All calls with the arguments of this one; for a kernel, of its launching op."),
    ] = None,
    top: Annotated[
        int | None,
        option(
            metavar="N",
            min=0,
            help=f"The first N operations and argument sets (with -o, of those that can be replayed; with --gemms, of "
            f"products); 0 for all. Default: {ROWS}; all with --op, --uid or --gemms.",
        ),
    ] = None,
    by: Annotated[
        By, typer.Option(help="Order: first those with the most GPU time, or with the most time above the roof.")
    ] = By.gpu_time,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            show_default=False,
            help="Write a program for each to DIR, and replay.json, which lists them.",
        ),
        TO_FOLDER,
    ] = None,
    full: Annotated[
        bool, option("--full", help="With -o: longer programs that check and restore more, with more options.")
    ] = False,
    batch: Annotated[
        bool, option("--batch", help="One program that runs them all, and a list of them with counts.")
    ] = False,
    collectives: Annotated[
        bool, option("--collectives", help="A program for torchrun that runs the collectives instead.")
    ] = False,
    kernel_source: Annotated[
        list[Path] | None,
        option(
            metavar="FILE",
            help="With -o: file that defines Triton kernels, to put beside their programs; may be given again.",
        ),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        option(
            metavar="SIZE=N,N...",
            help="With -o: programs of the first operation at other sizes: batch=1,2,4,8; 4096=1024,2048 for every "
            "dimension of that size; query.0,key.0=1,2 for the first dimensions of these arguments.",
        ),
    ] = None,
    gemms: Annotated[
        str | None,
        option(
            metavar="hipblaslt|cublas",
            help="Print the products of matrices as a script of calls of hipblaslt-bench or cublasMatmulBench.",
        ),
    ] = None,
    table: TableName = None,
    from_database: Annotated[
        bool,
        option(
            "--from-database",
            help="TRACE is a name in the Neo4j database: make programs of its signatures, also from facts alone.",
        ),
    ] = False,
    verify: Annotated[
        bool,
        option("--verify", help="Run the programs of a folder under the profiler, and compare them with the trace."),
    ] = False,
    python: Annotated[
        str | None, option(metavar="FILE", help="With --verify: a Python that has torch. Default: this one.")
    ] = None,
    reference: Annotated[
        bool,
        option(
            "--reference", help="With --verify: run plain torch instead of serving libraries that are not installed."
        ),
    ] = False,
    compare: Annotated[
        bool,
        option("--compare", help="Compare results that programs wrote with --json: files or folders, one per device."),
    ] = False,
    et: ExecutionTraceFile = None,
    arch: Arch = None,
    extension: Extensions = None,
    outputs: Annotated[Outputs, Writes(*TABLE, files=False)],
    window: Window,
) -> None:
    """Make a small program of any operation of a trace, which replays it without the model.

    Arguments are rebuilt from the shapes, types, strides and values that the profiler recorded. A program needs only
    torch. For a profile of JAX, a program computes instructions of XLA, needs only JAX, and ends with an error if a
    result has another shape or type than in the trace; there are no programs of collectives. Without -o, the command
    lists what can be replayed, what is assumed, and what cannot and why. Tables are replay_signatures, and
    replay_coverage for all GPU time.

    Programs print their times, and write them with --json. --compare shows the times of several devices side by side:
    by operation (replay_results), and in sum as often as the trace calls them (replay_devices).

    Example: tracelens-graph replay trace.json.gz --top 5

    Example: tracelens-graph replay trace.json.gz --op aten::mm -o programs/
    """
    if arch == NO_ARCH:
        raise typer.BadParameter("--arch: replay needs no device; leave it out")
    if sweep and len(sweep) > 1:
        raise typer.BadParameter(
            f"--sweep: give it once, not {len(sweep)} times; sizes of several positions change alike"
        )
    tables = _OF_RESULTS if compare else TABLES
    if table is not None and table not in tables:
        raise typer.BadParameter(f"--table: there is no table {table!r}; {hint(table, tables)}")
    if len(given) > 1 and not (compare or verify):
        raise typer.BadParameter(f"one trace is wanted, not {len(given)}; --compare puts results side by side")
    asked = Asked(
        trace=given[0],
        window=window,
        op=name_wanted(op, "--op"),
        uid=None if uid is None else to_uid(uid, "--uid"),
        top=top,
        by_roof=by is By.below_roof,
        output=output,
        full=full,
        batch=batch,
        collectives=collectives,
        kernel_sources=tuple(kernel_source or ()),
        sweep=sweep[0] if sweep else None,
        gemms=gemms,
        table=None if compare else table,
        from_database=from_database,
        et=et,
        arch=arch,
        extensions=tuple(extension or ()),
        outputs=outputs,
    )
    if (python is not None or reference) and not verify:
        raise typer.BadParameter(f"{'--reference' if python is None else '--python'} goes with --verify")
    if compare and (verify or extension):
        raise typer.BadParameter(f"--compare goes without {'--verify' if verify else '--extension'}")
    if compare or verify:
        asked.check_is_plain("--compare" if compare else "--verify")
    if verify:
        verify_folder(given, python, reference, asked.extensions, outputs)
    elif compare:
        compare_results(given, table, outputs)
    else:
        asked.check()
        if not from_database:
            check_is_no_folder(given[0])
        replay_trace(asked)
