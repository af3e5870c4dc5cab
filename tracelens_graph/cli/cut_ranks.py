"""`tracelens-graph cut --collective`: one trace of all ranks around a collective."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import typer

from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
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
    matched = MatchedCollectives(traces)
    number = collective_named(matched, wanted)
    begin = int(matched.first_start_ns[number]) - margin_ns
    end = int(matched.last_end_ns[number]) + margin_ns
    pieces = _pieces(traces, matched, number, begin, end)
    about = _about(traces, matched, number, pieces)
    epoch = traces[0].clock_ns or 0
    with progress_on_terminal("cutting") as progress, replacing(output) as file:
        events = write_ranks(
            list(pieces.values()),
            joined(matched, pieces),
            file,
            packed=output.suffix.lower() == ".gz",
            epoch_ns=epoch - int(matched.parts.shift_ns[0]) if epoch else 0,
            about=about,
            progress=progress,
        )
    last = matched.ranks[int(matched.trace[matched.last_part[number]])]
    late = last.name if last.rank is None else f"rank {last.rank}"
    skew = (matched.last_start_ns[number] - matched.first_start_ns[number]) / 1e3
    say_written(
        f"wrote {output}: {events:,} events of {len(pieces):,} ranks around collective {number} "
        f"({matched.kind[number]}; {late} came last, {skew:,.1f} us after the first){size_of(output)};"
        " to see it: ui.perfetto.dev, Open trace file",
        output,
    )


def collective_named(matched: MatchedCollectives, wanted: str) -> int:
    """The number of the collective that is named by its number or key.

    Raises:
        AnalysisError: there is no such collective, or several have the key.
    """
    if not len(matched):
        why = f": {matched.notes[0]}" if matched.notes else ""
        raise AnalysisError(f"the ranks have no collective in common{why}")
    if wanted.isdecimal():
        if len(wanted) < 19 and int(wanted) < len(matched):
            return int(wanted)
        raise AnalysisError(f"there is no collective {wanted}: they are numbered from 0 to {len(matched) - 1:,}")
    of_key: dict[str, set[int]] = {}
    shown: dict[str, set[int]] = {}
    for part in matched.order.tolist():
        number = int(matched.number[part])
        of_key.setdefault(matched.parts.collective(part).key, set()).add(number)
        if part == matched.last_part[number]:
            shown.setdefault(matched.parts.collective(part).key, set()).add(number)
    # Where events are missing, ranks count differently: a table shows the key that the last rank has.
    found = shown.get(wanted) or of_key.get(wanted, set())
    if len(found) == 1:
        return next(iter(found))
    if found:
        numbers = ", ".join(map(str, sorted(found)[:5]))
        raise AnalysisError(f"{wanted} is the key of several collectives; name one by its number: {numbers}")
    alone = {matched.parts.collective(part).key: why for part, why in matched.unmatched}
    if wanted in alone:
        raise AnalysisError(f"collective {wanted} is not matched: {alone[wanted]}")
    raise AnalysisError(f"no collective has the key {wanted!r}; {did_you_mean(wanted, of_key) or LISTED}")


def _pieces(traces: TraceSet, matched: MatchedCollectives, number: int, begin: int, end: int) -> dict[int, RankPiece]:
    """For each rank, by its place, what it did between two moments of the common clock, and its part."""
    rows = {int(matched.trace[part]): matched.parts.collective(part).rows for part in matched.parts_of(number).tolist()}
    titles = rank_titles(traces)
    pieces: dict[int, RankPiece] = {}
    empty = []
    for place, trace in enumerate(traces):

        def clock(times: np.ndarray, place: int = place) -> np.ndarray:
            return matched.clock_ns(place, times)

        after, before = matched.own_ns(place, np.array([begin, end], np.int64)).tolist()
        try:
            piece = piece_between(trace.core, after, before, also=rows.get(place, ()))
        except AnalysisError:
            empty.append(trace.name)
            continue
        pieces[place] = RankPiece(titles[place], piece, clock)
    if empty:
        say([f"left out, as nothing happens there then: {', '.join(empty)}"])
    return pieces


def joined(matched: MatchedCollectives, pieces: Mapping[int, RankPiece]) -> Iterator[Joined]:
    """Arrows through the kernels of every collective of which at least two ranks have theirs in the pieces."""
    order = {place: at for at, place in enumerate(pieces)}
    inside = {place: set(one.piece.rows.tolist()) for place, one in pieces.items()}
    for number, kind in enumerate(matched.kind):
        parts = matched.parts_of(number)
        parts = parts[np.argsort(matched.start_ns[parts], kind="stable")].tolist()
        firsts = [
            (int(matched.trace[part]), matched.parts.collective(part).rows[0], int(matched.start_ns[part]))
            for part in parts
        ]
        kernels = [(order[place], row, start) for place, row, start in firsts if row in inside.get(place, ())]
        if len(kernels) > 1:
            yield Joined(f"{kind} {number}", kernels)


def _about(
    traces: TraceSet, matched: MatchedCollectives, number: int, pieces: dict[int, RankPiece]
) -> dict[str, object]:
    """What the file says of itself: the collective, and by how much the clock of each rank was corrected there."""
    moment = int(matched.first_start_ns[number])
    ranks = clocks_at(moment, traces, matched, pieces)
    last = matched.parts.collective(int(matched.last_part[number]))
    return {"collective": number, "key": last.key, "kind": matched.kind[number], "ranks": ranks}


def clocks_at(
    moment: int, traces: TraceSet, matched: MatchedCollectives, places: Iterable[int]
) -> list[dict[str, object]]:
    """For each of some ranks by how much its clock was ahead of the common one at a moment of that, ns."""
    ranks: list[dict[str, object]] = []
    for place in places:
        [own] = matched.own_ns(place, np.array([moment], np.int64)).tolist()
        recorded = own + int(matched.parts.shift_ns[place])
        ranks.append({"trace": traces[place].name, "rank": traces[place].rank, "clock_ns": recorded - moment})
    return ranks
