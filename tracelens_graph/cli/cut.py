"""`tracelens-graph cut`: a piece of a trace, or of all ranks around a collective, as a trace of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from tracelens_graph.cli.options import ANYWHERE, Traces, option, refuse, to_ns, to_uid
from tracelens_graph.cli.outputs import Content, Outputs, Writes, streamed
from tracelens_graph.cli.traces import load, load_set, say, traces_named
from tracelens_graph.cli.windows import numbers_of
from tracelens_graph.utils.suggest import did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.stores.cut import Piece
    from tracelens_graph.stores.ranks_cut import Joined, RankPiece

_MARGIN_NS = 1_000_000
TO_SEE = "to see it: ui.perfetto.dev, Open trace file"
LISTED = "tracelens-graph ranks lists them"


def cut(
    traces: Traces,
    *,
    outputs: Annotated[Outputs, Writes("trace", needed=True)],
    uid: Annotated[
        str | None, option(metavar="UID", help="Around the event at this position of the file, from 0.")
    ] = None,
    step: Annotated[int | None, option(metavar="N", help="Around step N, of PyTorch ProfilerStep#N.")] = None,
    iteration: Annotated[
        str | None, option(metavar="N", help="Iteration N of a server alone, or several: 3, 2-5; ask iterations.")
    ] = None,
    collective: Annotated[
        str | None,
        option(metavar="N|KEY", help="Around the collective of this number or key, of all ranks: name their folder."),
    ] = None,
    around: Annotated[
        str | None,
        option(metavar="TIME", help="Time before and after it: 5ms, 200us. Default: 1ms; for iterations none."),
    ] = None,
    from_: Annotated[str | None, option("--from", metavar="TIME", help="From this time of Perfetto UI on.")] = None,
    to: Annotated[str | None, option("--to", metavar="TIME", help="Up to this time.")] = None,
) -> None:
    """Cut a piece out of a trace, as a small trace that Perfetto UI opens.

    The piece holds whole events: all that overlap the time, the launches of its GPU work with their callers, the steps
    and annotations around them, and the arrows between them. For a named event it holds all its GPU work, whenever that
    ran. For iterations it holds what belongs to them, and what is around them only with --around. A time without a unit
    is in microseconds. With --collective the file holds all ranks of a job, each as processes of its own.

    Example: tracelens-graph cut trace.json.gz --uid 1234 --around 5ms -o cut.json.gz

    Example: tracelens-graph cut trace.json.gz --iteration 17 -o step17.json.gz

    Example: tracelens-graph cut trace.json.gz --from 1.2s --to 1.3s -o cut.json.gz

    Example: tracelens-graph cut traces/ --collective 4 --around 500us -o collective4.json.gz
    """
    between = from_ is not None or to is not None
    named = [uid is not None, step is not None, iteration is not None, collective is not None, between]
    refuse(
        (sum(named) != 1, "say what to cut out: one of --uid, --step, --iteration, --collective, or --from and --to"),
        (between and around is not None, "--around goes with --uid, --step, --iteration or --collective"),
        (collective is None and len(traces) > 1, "name one trace; several are for --collective"),
    )
    margin = None if around is None else to_ns(around, "--around")
    if collective is not None:
        outputs.write((traces, collective, _MARGIN_NS if margin is None else margin), {"trace": _around_collective})
        return
    after = None if from_ is None else to_ns(from_, "--from")
    before = None if to is None else to_ns(to, "--to")
    refuse((after is not None and before is not None and before < after, "--to: is before --from"))
    position = None if uid is None else to_uid(uid, "--uid")
    numbers = None if iteration is None else numbers_of(iteration, "--iteration")
    core = load(traces[0])
    lead = core.info.lead_ns
    after, before = (None if ns is None else ns - lead for ns in (after, before))
    piece = _piece(core, position, step, numbers, margin, after, before)
    about = "" if numbers is None else _iterations_in(piece)
    if ANYWHERE.get().capture or ANYWHERE.get().identify:
        say(["a cut file holds only what the trace recorded: give --capture or --identify again with the file"])
    outputs.write((core, piece), {"trace": streamed(partial(_write_piece, about))})


def _write_piece(about: str, cut: tuple[Core, Piece], file: BinaryIO) -> str:
    from tracelens_graph.stores.cut import write_piece
    from tracelens_graph.tables.terminal import progress_on_terminal

    core, piece = cut
    with progress_on_terminal("cutting") as progress:
        events = write_piece(piece, file, progress=progress)
    begin, end = (core.info.shown_ms(ns) for ns in (piece.after_ns, piece.before_ns))
    return f"{about}{events:,} events, {begin:,.3f} to {end:,.3f} ms; {TO_SEE}"


def _iterations_in(piece: Piece) -> str:
    """Which iterations of a server a piece holds, and which of them in part."""
    import numpy as np

    from tracelens_graph.graph.iterations import iterations_of
    from tracelens_graph.graph.window import spans

    found = iterations_of(piece.core)
    inside, of_all = (np.bincount(of[of >= 0], minlength=len(found)) for of in (found.of[piece.rows], found.of))
    partly = spans(np.flatnonzero((inside > 0) & (inside < of_all)).tolist())
    whole = np.flatnonzero((inside > 0) & (inside == of_all)).tolist()
    also = f", and {', '.join(partly)} in part" if partly else ""
    return f"iteration{'s' * (len(whole) != 1)} {', '.join(spans(whole))}{also}: "


def _piece(
    core: Core, uid: int | None, step: int | None, iteration: Sequence[int] | None, around: int | None,
    after: int | None, before: int | None,
) -> Piece:  # fmt: skip
    from tracelens_graph.graph.window import narrow, whole_window
    from tracelens_graph.schema import Kind
    from tracelens_graph.stores.cut import piece_around, piece_between, piece_of_iterations

    margin = _MARGIN_NS if around is None else around
    if uid is not None:
        row = core.row(uid)
        while core.columns.uid[row] >= core.info.events and core.columns.parent[row] >= 0:
            row = int(core.columns.parent[row])  # of an op that was captured or inferred, the launch of its graph
        return piece_around(core, [row], margin)
    if step is not None:
        return piece_around(core, narrow(whole_window(core), step=step).rows_of_kind(Kind.Step).tolist(), margin)
    if iteration is not None:
        from tracelens_graph.analyses.serving.iterations import served_in

        served = served_in(narrow(whole_window(core), iteration=iteration))
        piece = piece_of_iterations(core, served.numbers.tolist(), served.on_device_ns[0][:-1])
        if around is None:
            return piece
        return piece_between(core, piece.after_ns - margin, piece.before_ns + margin)
    end = max(core.columns.end_ns, default=0)
    return piece_between(core, after or 0, end if before is None else before)


# --- around a collective ---------------------------------------------------------------------------------------------


def _around_collective(asked: tuple[Sequence[str], str, int]) -> Content:
    """What writes what all ranks did around a collective: traces, its number or key, ns before and after it.

    Raises:
        typer.BadParameter: there are no two traces.
        AnalysisError: there is no such collective.
    """
    from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives

    sources, wanted, margin_ns = asked
    traces = load_set(traces_named(sources)).by_device()
    refuse((len(traces) < 2, "--collective: is for the ranks of a job; name the folder of their traces"))
    matched = MatchedCollectives(traces)
    number = collective_named(matched, wanted)
    begin = int(matched.first_start_ns[number]) - margin_ns
    end = int(matched.last_end_ns[number]) + margin_ns
    return partial(_write_ranks, traces, matched, number, _pieces(traces, matched, number, begin, end))


def _write_ranks(
    traces: TraceSet, matched: MatchedCollectives, number: int, pieces: dict[int, RankPiece], file: BinaryIO
) -> str:
    events = written(traces, matched, pieces, file, "cutting", _about(traces, matched, number, pieces))
    last = matched.ranks[int(matched.trace[matched.last_part[number]])]
    late = last.name if last.rank is None else f"rank {last.rank}"
    skew = (matched.last_start_ns[number] - matched.first_start_ns[number]) / 1e3
    return (
        f"{events:,} events of {len(pieces):,} ranks around collective {number} ({matched.kind[number]}; {late} came "
        f"last, {skew:,.1f} us after the first); {TO_SEE}"
    )


def written(
    traces: TraceSet, matched: MatchedCollectives, pieces: dict[int, RankPiece], file: BinaryIO, label: str,
    about: dict[str, object], beside: Any = None,
) -> int:  # fmt: skip
    """Write pieces of ranks on one clock, with progress on a terminal; how many events these are."""
    from tracelens_graph.stores.ranks_cut import write_ranks
    from tracelens_graph.tables.terminal import progress_on_terminal

    start_ns = (epoch := traces[0].clock_ns or 0) and epoch - int(matched.parts.shift_ns[0])
    with progress_on_terminal(label) as progress:
        ranks, arrows = list(pieces.values()), joined(matched, pieces)
        return write_ranks(ranks, arrows, file, epoch_ns=start_ns, about=about, beside=beside, progress=progress)


def collective_named(matched: MatchedCollectives, wanted: str) -> int:
    """The number of the collective that is named by its number or key.

    Raises:
        AnalysisError: there is no such collective, or several have the key.
    """
    from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
    from tracelens_graph.errors import AnalysisError

    if not len(matched):
        notes = notes_on_matching(matched)
        why = f": {notes[0]}" if notes else ""
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
    import numpy as np

    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.graph.ranks import rank_titles
    from tracelens_graph.stores.cut import piece_between
    from tracelens_graph.stores.ranks_cut import RankPiece

    rows = {int(matched.trace[part]): matched.parts.collective(part).rows for part in matched.parts_of(number).tolist()}
    titles = rank_titles(traces)
    pieces: dict[int, RankPiece] = {}
    empty = []
    for place, trace in enumerate(traces):

        def clock(times: np.ndarray, place: int = place) -> np.ndarray:  # a closure would see the last one's place
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
    """Arrows through the kernels of every collective that has kernels of at least two ranks in the pieces."""
    import numpy as np

    from tracelens_graph.stores.ranks_cut import Joined

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
    import numpy as np

    ranks: list[dict[str, object]] = []
    for place in places:
        [own] = matched.own_ns(place, np.array([moment], np.int64)).tolist()
        recorded = own + int(matched.parts.shift_ns[place])
        ranks.append({"trace": traces[place].name, "rank": traces[place].rank, "clock_ns": recorded - moment})
    return ranks
