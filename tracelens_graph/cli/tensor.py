"""`tracelens-graph tensor`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tracelens_graph.cli.common import load, print_wrapped, warn_of_unread_tensors, write_table
from tracelens_graph.cli.options import CacheOption, ExecutionTraceFile, Format, FormatOption, Trace


def tensor(
    trace: Trace,
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            show_default=False,
            help="Tensor or storage of the execution trace: 123, t123 or s124; t123#2: the second one with this id.",
        ),
    ],
    et: ExecutionTraceFile = None,
    format: FormatOption = Format.table,
    cache: CacheOption = False,
) -> None:
    """Tell the life of a tensor or a storage: made by whom, viewed, read and written by whom, with kernels and times.

    Ids of tensors are used again once memory is free: where several had this id, they are listed. TRACE may be an
    execution trace itself; then there are no times.

    Example: tracelens-graph tensor trace.json.gz --et execution-trace.json.gz t123
    """
    core = load(trace, cache, needs_times=False, et=et)
    warn_of_unread_tensors(core)
    from tracelens_graph.analyses.tensors.life import describe_thing, find_things, tensor_life

    things = find_things(core, id)
    if len(things) == 1:
        if format is Format.table:
            for line in describe_thing(core, things[0]):
                print_wrapped(line)
            sys.stdout.write("\n")
        write_table(tensor_life(core, things[0]), format)
        return
    from tracelens_graph.analyses.tensors.life import versions

    write_table(versions(core, things), format)
