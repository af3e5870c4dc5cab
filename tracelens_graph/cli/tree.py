"""`tracelens-graph tree`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli.options import Extensions, Name, Trace, name_wanted, option, refuse, to_uid
from tracelens_graph.cli.outputs import Outputs, Writes
from tracelens_graph.cli.shown import TABLE, Shown, print_lines, screen
from tracelens_graph.cli.traces import extension_of, load, say
from tracelens_graph.cli.windows import Window
from tracelens_graph.utils.suggest import did_you_mean
from tracelens_graph.utils.texts import wrapped

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.window import Window as Part
    from tracelens_graph.reports.tree_text import Choice, Places
    from tracelens_graph.schema import Kind
    from tracelens_graph.utils.arrays import Mask, Ns

_LINES_FOR_PEOPLE = 200
_LEAST = 0.01
"""Share of the host time of all that is drawn, from which on `--host-time` draws a call."""
_SCREEN = (20, 60)
"""Calls that `--host-time` draws at least, and at most: the longest."""


LabelStyle = StrEnum("LabelStyle", "short full")
"""How the line of a node begins."""


def tree(
    trace: Trace,
    *,
    name: Name = None,
    uid: Annotated[str | None, option(metavar="UID", help="The event at this position of the file, from 0.")] = None,
    ext_id: Annotated[int | None, option("--ext-id", help="Nodes with this External id.")] = None,
    pid: Annotated[str | None, option(help="Nodes of this process or device.")] = None,
    tid: Annotated[str | None, option(help="Nodes of this thread or stream.")] = None,
    up: Annotated[bool, option("--up", help="From the nodes to their callers, not to what they call.")] = False,
    gpu_time: Annotated[
        bool, option("--gpu-time", help="GPU time per line: sum of durations, and time any of it ran.")
    ] = False,
    host_time: Annotated[
        bool,
        option(
            "--host-time",
            help="Host time per line, inclusive and own, the most first, and how long the GPU was idle in it. Calls of "
            "less than 1 % of the whole are only counted, and background threads left out; --max-lines 0 draws all.",
        ),
    ] = False,
    depth: Annotated[int | None, option(min=0, metavar="N", help="Levels below the nodes.")] = None,
    prune: Annotated[bool, option("--prune", help="Only paths that lead to GPU work.")] = False,
    kind: Annotated[
        list[str] | None,
        option(
            help="Only nodes of this kind: Op, Module, Kernel, ... or host, python, gpu; may be given more than once."
        ),
    ] = None,
    uids: Annotated[bool, option("--uids", help="Show the uid of every node.")] = False,
    labels: Annotated[
        LabelStyle, typer.Option(help="'(cpu) aten::add' or 'Category: cpu_op, Name: aten::add'.")
    ] = LabelStyle.short,
    max_lines: Annotated[
        int | None,
        option(
            min=0,
            metavar="N",
            help=f"Stop after N lines (upwards: nodes); 0: all. Default: {_LINES_FOR_PEOPLE} on a terminal, else all.",
        ),
    ] = None,
    extension: Extensions = None,
    outputs: Annotated[Outputs, Writes(*TABLE, screen="text")],
    window: Window,
) -> None:
    """Draw call trees: the whole trace, what is below some nodes, or what is above them.

    Example: tracelens-graph tree trace.json.gz --name aten::linear --gpu-time --max-lines 20

    Example: tracelens-graph tree trace.json.gz --uid 1234 --up

    Example: tracelens-graph tree trace.json.gz --host-time --step 3
    """
    wanted = {"name": name_wanted(name), "external_id": ext_id, "pid": pid, "tid": tid}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    if up and uid is None and not wanted:
        raise typer.BadParameter("--up needs nodes to start from: --uid, --name, --ext-id, --pid or --tid")
    refuse(
        (not outputs.to_screen and (gpu_time or host_time or uids or labels is not LabelStyle.short),
         "--gpu-time, --host-time, --uids and --labels are for the drawing: tables have times and uids"),
    )  # fmt: skip
    refuse((host_time and gpu_time, "--host-time and --gpu-time are two measures: give one of them"))
    kinds, added = _kinds(kind or (["host"] if host_time else None)), extension_of(extension)
    position = None if uid is None else to_uid(uid, "--uid")
    w = window.of(load(trace, needs_times=False), added)
    core = w.core
    say(filter(None, [core.info.inferred]))
    import numpy as np

    from tracelens_graph.graph.user_code import shown_frames
    from tracelens_graph.reports import tree_text
    from tracelens_graph.schema import Kind

    rows = None if position is None and not wanted else _matches(w, position, wanted)
    drawn = w.holds(np.arange(len(core.columns)))
    if kinds:
        drawn &= np.isin(core.columns.kind, kinds)
    if host_time or (up and not w.all_frames):
        drawn &= (core.columns.kind != Kind.PythonFunction) | shown_frames(w)
    times = None
    if host_time:
        from tracelens_graph.analyses.places.host_times import in_background, times_of_calls

        behind = in_background(core)[core.columns.thread]
        if rows is None and max_lines != 0 and (drawn & ~behind).any():
            drawn &= ~behind
        times = times_of_calls(w, drawn)
        least = 0 if max_lines == 0 else _least(core, drawn, times, rows)
        choice = tree_text.Choice(drawn, prune, depth, times[0], least, folds_chains=least > 0)
    else:
        choice = tree_text.Choice(None if drawn.all() else drawn, prune, depth)
    places = _places(core, rows, up, choice)
    if not outputs.to_screen:
        every = (row for row, _ in places if row >= 0)
        table = tree_text.drawn_nodes(core, list(islice(every, max_lines) if max_lines else every))
        outputs.write(Shown(replace(table, title=w.titled(table.title))), TABLE)
        return
    if labels is LabelStyle.short:
        category = tree_text.short_category(core)
    else:
        from tracelens_graph.reports.tree_text import categories

        category = categories(core).__getitem__
    width, _ = screen()
    is_short = labels is LabelStyle.short
    beside = times if up else None
    style = tree_text.Labels(
        category, is_short, uids, gpu_time, host_time=beside, width=width if up and is_short else 0
    )
    limit = (_LINES_FOR_PEOPLE if sys.stdout.isatty() else 0) if max_lines is None else max_lines
    shown = islice(places, limit) if limit else places
    more = max(len(places) - limit, 0) if limit else 0
    lines = (tree_text.ladder_lines if up else tree_text.lines)(core, shown, style)
    if times is not None and not up:
        print_lines(tree_text.timed_lines(core, shown, style, times, width))
    elif up:
        print_lines(part for line in lines for part in wrapped(line, width, "    "))
    else:
        print_lines(tree_text.fitted_line(line, width) for line in lines)
    if times is not None and not up and (drawn & (times[0] < least)).any():
        left_out = f"calls under {least / 1e6:.3f} ms are left out: --max-lines 0 draws all, --uid N what is below one"
        print_lines(wrapped(left_out, width))
    if more:
        sys.stdout.write(f"... {more:,} more {'nodes' if up else 'lines'} (--max-lines 0 shows all)\n")


def _kinds(names: list[str] | None) -> list[Kind]:
    from tracelens_graph.errors import NodeNotFoundError
    from tracelens_graph.graph.graph import kinds_named

    try:
        return kinds_named(names or [])
    except NodeNotFoundError as error:
        raise typer.BadParameter(f"--kind: {error}") from None


def _least(core: Core, drawn: Mask, times: Sequence[Ns], rows: Sequence[int] | None) -> float:
    """Host time from which on a call is drawn: 1 % of all, unless that were too few or too many for a screen."""
    import numpy as np

    below = drawn.copy()
    if rows is not None:
        change = np.zeros(len(below) + 1, np.int64)
        np.add.at(change, rows, 1)
        np.add.at(change, core.columns.last[rows].astype(np.int64) + 1, -1)
        below &= np.cumsum(change[:-1]) > 0
    longest = np.sort(times[0][below])[::-1]
    if not len(longest):
        return 0
    few, many = longest[np.minimum(_SCREEN, len(longest) - 1)]
    return float(np.clip(_LEAST * times[1][below].sum(), many, few))


def _places(core: Core, rows: list[int] | None, up: bool, choice: Choice) -> Places:
    import numpy as np

    from tracelens_graph.reports import tree_text

    if rows is None:
        return tree_text.forest(core, choice)
    if up:
        from tracelens_graph.graph.user_code import onward

        return tree_text.ladders(core, rows, choice, onward(core, np.array(rows, np.int64)))
    return tree_text.subtrees(core, list(_outermost(core, rows)), choice)


def _matches(w: Part, uid: int | None, wanted: dict[str, Any]) -> list[int]:
    """Rows of the window that meet all conditions.

    Raises:
        NodeNotFoundError: none does; the message names similar names.
    """
    import numpy as np

    from tracelens_graph.errors import NodeNotFoundError
    from tracelens_graph.graph.graph import readable

    core = w.core
    only = None if uid is None else core.row(uid)
    found = [only] if only is not None and not wanted else [node.row for node in readable(core).find(**wanted)]
    rows = [row for row in found if only in (None, row)]
    rows = [row for row, inside in zip(rows, w.holds(np.asarray(rows, np.int64)).tolist(), strict=True) if inside]
    if rows:
        return rows
    asked = ", ".join(
        f"{key.replace('_', ' ')} {f'/{value.pattern}/' if isinstance(value, re.Pattern) else repr(value)}"
        for key, value in (wanted | {"uid": uid}).items()
        if value is not None
    )
    hint = ""
    if isinstance(wanted.get("name"), str) and wanted["name"] not in core.names:
        hint = did_you_mean(wanted["name"], core.names, most=3, cutoff=0.75)
    where = f" in {w.title}" if w.title else ""
    raise NodeNotFoundError(f"no node{where} has {asked}{hint and f'; {hint}'}")


def _outermost(core: Core, rows: list[int]) -> Iterator[int]:
    """Rows that lie below none of the others: what is below a node is drawn with it."""
    end = -1
    for row in rows:
        if row > end:
            yield row
            end = int(core.columns.last[row])
