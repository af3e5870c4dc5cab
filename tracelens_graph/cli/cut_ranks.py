"""`tracelens-graph cut --collective`: one trace of all ranks around a collective."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import typer

from tracelens_graph.analyses.ranks.matched_collectives import Meetings
from tracelens_graph.cli.outputs import say_written, size_of
from tracelens_graph.cli.traces import load_set, say, traces_named
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet, rank_titles
from tracelens_graph.output.files import replacing
from tracelens_graph.reports.progress import progress_on_terminal
from tracelens_graph.stores.cut import piece_between
from tracelens_graph.stores.ranks_cut import Joined, RankPiece, write_ranks
from tracelens_graph.utils.suggest import did_you_mean

LISTED = "tracelens-graph ranks lists them"


def cut_collective(sources: Sequence[str], wanted: str, margin_ns: int, output: Path) -> None:
    """Write what all ranks did around a collective.

    Args:
        sources: the traces, or folders or patterns of them.
        wanted: number or key of the collective.
        margin_ns: how much before the first start and after the last end.
        output: the file to write.

    Raises:
        typer.BadParameter: there are no two traces.
        AnalysisError: there is no such collective.
    """
    traces = load_set(traces_named(sources)).by_device()
    if len(traces) < 2:
        raise typer.BadParameter("--collective: is for the ranks of a job; name the folder of their traces")
    meetings = Meetings(traces)
    number = collective_named(meetings, wanted)
    begin = int(meetings.first_start_ns[number]) - margin_ns
    end = int(meetings.last_end_ns[number]) + margin_ns
    pieces = _pieces(traces, meetings, number, begin, end)
    about = _about(traces, meetings, number, pieces)
    epoch = traces[0].clock_ns or 0
    with progress_on_terminal("cutting") as progress, replacing(output) as file:
        events = write_ranks(
            list(pieces.values()),
            joined(meetings, pieces),
            file,
            packed=output.suffix.lower() == ".gz",
            epoch_ns=epoch - int(meetings.parts.shift_ns[0]) if epoch else 0,
            about=about,
            progress=progress,
        )
    last = meetings.attendances[int(meetings.trace[meetings.last_part[number]])]
    late = last.name if last.rank is None else f"rank {last.rank}"
    skew = (meetings.last_start_ns[number] - meetings.first_start_ns[number]) / 1e3
    say_written(
        f"wrote {output}: {events:,} events of {len(pieces):,} ranks around collective {number} "
        f"({meetings.kind[number]}; {late} came last, {skew:,.1f} us after the first){size_of(output)};"
        " to see it: ui.perfetto.dev, Open trace file",
        output,
    )


def collective_named(meetings: Meetings, wanted: str) -> int:
    """The number of the collective that is named by its number or key.

    Raises:
        AnalysisError: there is no such collective, or several have the key.
    """
    if not len(meetings):
        why = f": {meetings.notes[0]}" if meetings.notes else ""
        raise AnalysisError(f"the ranks have no collective in common{why}")
    if wanted.isdecimal():
        if len(wanted) < 19 and int(wanted) < len(meetings):
            return int(wanted)
        raise AnalysisError(f"there is no collective {wanted}: they are numbered from 0 to {len(meetings) - 1:,}")
    of_key: dict[str, set[int]] = {}
    shown: dict[str, set[int]] = {}
    for part in meetings.order.tolist():
        number = int(meetings.meeting[part])
        of_key.setdefault(meetings.parts.collective(part).key, set()).add(number)
        if part == meetings.last_part[number]:
            shown.setdefault(meetings.parts.collective(part).key, set()).add(number)
    # Where events are missing, ranks count differently: a table shows the key that the last rank has.
    found = shown.get(wanted) or of_key.get(wanted, set())
    if len(found) == 1:
        return next(iter(found))
    if found:
        numbers = ", ".join(map(str, sorted(found)[:5]))
        raise AnalysisError(f"{wanted} is the key of several collectives; name one by its number: {numbers}")
    alone = {meetings.parts.collective(part).key: why for part, why in meetings.unmatched}
    if wanted in alone:
        raise AnalysisError(f"collective {wanted} is not matched: {alone[wanted]}")
    raise AnalysisError(f"no collective has the key {wanted!r}; {did_you_mean(wanted, of_key) or LISTED}")


def _pieces(traces: TraceSet, meetings: Meetings, number: int, begin: int, end: int) -> dict[int, RankPiece]:
    """For each rank, by its place, what it did between two moments of the common clock, and its part."""
    rows = {
        int(meetings.trace[part]): meetings.parts.collective(part).rows for part in meetings.parts_of(number).tolist()
    }
    titles = rank_titles(traces)
    pieces: dict[int, RankPiece] = {}
    empty = []
    for place, trace in enumerate(traces):

        def clock(times: np.ndarray, place: int = place) -> np.ndarray:
            return meetings.clock_ns(place, times)

        after, before = meetings.own_ns(place, np.array([begin, end], np.int64)).tolist()
        try:
            piece = piece_between(trace.core, after, before, also=rows.get(place, ()))
        except AnalysisError:
            empty.append(trace.name)
            continue
        pieces[place] = RankPiece(titles[place], piece, clock)
    if empty:
        say([f"left out, as nothing happens there then: {', '.join(empty)}"])
    return pieces


def joined(meetings: Meetings, pieces: Mapping[int, RankPiece]) -> Iterator[Joined]:
    """Arrows through the kernels of every collective of which at least two ranks have theirs in the pieces."""
    order = {place: at for at, place in enumerate(pieces)}
    inside = {place: set(one.piece.rows.tolist()) for place, one in pieces.items()}
    for number, kind in enumerate(meetings.kind):
        parts = meetings.parts_of(number)
        parts = parts[np.argsort(meetings.start_ns[parts], kind="stable")].tolist()
        firsts = [
            (int(meetings.trace[part]), meetings.parts.collective(part).rows[0], int(meetings.start_ns[part]))
            for part in parts
        ]
        kernels = [(order[place], row, start) for place, row, start in firsts if row in inside.get(place, ())]
        if len(kernels) > 1:
            yield Joined(f"{kind} {number}", kernels)


def _about(traces: TraceSet, meetings: Meetings, number: int, pieces: dict[int, RankPiece]) -> dict[str, object]:
    """What the file says of itself: the collective, and by how much the clock of each rank was corrected there."""
    moment = int(meetings.first_start_ns[number])
    ranks = clocks_at(moment, traces, meetings, pieces)
    last = meetings.parts.collective(int(meetings.last_part[number]))
    return {"collective": number, "key": last.key, "kind": meetings.kind[number], "ranks": ranks}


def clocks_at(moment: int, traces: TraceSet, meetings: Meetings, places: Iterable[int]) -> list[dict[str, object]]:
    """For each of some ranks by how much its clock was ahead of the common one at a moment of that, ns."""
    ranks: list[dict[str, object]] = []
    for place in places:
        [own] = meetings.own_ns(place, np.array([moment], np.int64)).tolist()
        recorded = own + int(meetings.parts.shift_ns[place])
        ranks.append({"trace": traces[place].name, "rank": traces[place].rank, "clock_ns": recorded - moment})
    return ranks
