"""Who makes a job wait, and why: late arrivals with a reason of their own, grouped by what they have in common.

Ranks that share a reason are one culprit, and are called by what they share: a host, a stage, a process group; else by
their numbers. So are ranks that come late for one reason in turn. What ranks wait for elsewhere, or bring along from
before, is nobody's fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import percent, shown_ms
from tracelens_graph.analyses.ranks.figures import NOISE, Figures, held_up_by, later_by
from tracelens_graph.analyses.ranks.link_delays import LinkDelays
from tracelens_graph.analyses.ranks.matched_collectives import ALONE, NO_PARTNER, MatchedCollectives
from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT
from tracelens_graph.analyses.stragglers.culprits import Culprit, joined
from tracelens_graph.analyses.stragglers.even_on_rank import COMPUTATION
from tracelens_graph.analyses.stragglers.names import called, teams, when
from tracelens_graph.analyses.stragglers.reasons import EARLIER, GPU_REASONS, LINK, OTHERS, REASONS, UNKNOWN, UNNAMED
from tracelens_graph.analyses.stragglers.sound import LEAST_OF_A_STEP, Excess, Sound, kind_of
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.ranks import rank_titles
from tracelens_graph.utils.arrays import Ns
from tracelens_graph.utils.texts import ranges

LEAST_PERCENT = 2.0
"""Of the mean span of the ranks: what delays below it cost is not worth a repair."""
SMALL_PERCENT = 10.0
"""A rank, or a reason, with less than this share of the lateness of the largest beside it is none of its own."""
NEARLY = 0.95
"""A replay of this share of the mean time that ranks recorded is one of the recording."""
UNPROVEN = 3
"""Where no replay shows what lateness costs, it counts from so many times as much as by chance."""
NEARLY_ALWAYS_PERCENT = 80.0
LEAST_COLLECTIVES = 5

_NO_FAULT = (*(word for word in UNNAMED if word != UNKNOWN), OTHERS, LINK)
_OF_ITSELF = tuple(word for word in REASONS if word not in (*UNNAMED, OTHERS, LINK))
_KNOWN = tuple(word for word in REASONS if word not in (*UNNAMED, OTHERS))


@dataclass(frozen=True)
class Lateness:
    """What matched collectives show of stragglers.

    Attributes:
        culprits: who makes the others wait, the most expensive first.
        late: name of the rank with most lateness; None if nobody is late for a reason.
        lines: the same in words: each culprit, or why there is none; and which files are in doubt.
    """

    culprits: tuple[Culprit, ...]
    late: str | None
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it in one line."""
        return "; ".join(self.lines)


def lateness(
    figures: Figures,
    arrivals: Sequence[Mapping[str, Any]] | None = None,
    delays: LinkDelays | None = None,
    sound: Sound | None = None,
) -> Lateness | None:
    """Who makes the others wait.

    Collectives that lack ranks count, too: who came later than the others did, whoever else was to come.

    Args:
        figures: what each collective cost.
        arrivals: rows of `late_arrivals` of these collectives, as far as clocks can be compared; None where no reasons
            are known. Then the ranks that came last with most delay are late, unless most ranks do.
        delays: what slow links delay, which is no fault of a rank.
        sound: the job against the one in which no rank is slower than its like, where it is replayed: then that shows
            who costs what.

    Returns:
        None for a single trace, or where the traces have no collectives in common.
    """
    m = figures.matched
    if len(m.ranks) < 2 or not figures.mean_span_ns:
        return None
    files = odd_files(figures)
    if not len(m):
        doubtful = [why for _, why in m.unmatched if why != ALONE]
        why = f"no rank is proven late: {'; '.join(notes_on_matching(m))}"
        return Lateness((), None, (why, *files)) if doubtful else None
    there = f"ranks are missing in {m.lacking:,} of {len(m):,} collectives, which are judged by those there"
    if alone := sum(why in (ALONE, NO_PARTNER) for _, why in m.unmatched):
        there += f", and in {alone:,} more, of which one rank alone is there"
    missing = [there] if m.lacking else []
    if unknown := m.unknown_clocks:
        apart = f"how far the clocks of {unknown:,} hosts are apart is not known"
        if unknown == 1:
            apart = "how far the clock of a host is from those of others is not known"
        figures, m = Figures(m.comparable, figures.architecture), m.comparable
        missing = [f"{apart}: only ranks of one clock are compared"]
        # What ranks of other hosts made a rank wait for shows as a slow transfer, or not at all.
        arrivals = None if arrivals is None else [row for row in arrivals if row["reason"] in _OF_ITSELF]
        if not len(m):
            return Lateness((), None, (f"no rank is proven late: {apart}", *files))
    delay_ns = np.zeros(len(m.parts), np.int64) if delays is None else delays.delay_ns
    held_up = held_up_by(m, later_by(m, m.start_ns - delay_ns)) if delays is None or unknown else delays.held_up_ns
    if sound is not None:
        found = sound.excesses
    elif arrivals is None:  # who comes last may have waited for others before: nobody is called late
        last = _comes_last(figures, held_up)
        late = m.ranks[next(iter(last))].name if last else None
        return Lateness((), late, (*(last.values() or [_nobody(figures, held_up, sound)]), *missing, *files))
    else:
        always = _nearly_always_last(m, held_up) if len(m.ranks) > 2 else -1
        least = figures.chance_ns * np.where(np.arange(len(m.ranks))[:, None] == always, 1, UNPROVEN)
        found = _with_reasons(m, arrivals, delay_ns, least)
    culprits = tuple(joined(list(_grouped(figures, found, sound)), _steps(figures)))
    notes = [*missing, *files, *_before(figures, arrivals or ())]
    if not culprits:
        return Lateness((), None, (_nobody(figures, held_up, sound), *notes))
    worst = max(culprits[0].places, key=lambda place: sum(one.ns for one in found if one.place == place))
    return Lateness(culprits, m.ranks[worst].name, (*(f"late: {one.text}" for one in culprits), *notes))


# --- what counts -----------------------------------------------------------------------------------------------------


def _with_reasons(
    m: MatchedCollectives, arrivals: Iterable[Mapping[str, Any]], delay_ns: Ns, least: np.ndarray
) -> list[Excess]:
    """New lateness by rank, step and reason: more than chance, each delay once, of a rank's main reasons."""
    place = {one.name: at for at, one in enumerate(m.ranks)}
    of_part = zip(m.number.tolist(), m.trace.tolist(), delay_ns.tolist(), strict=True)
    by_link = {(number, trace): ns for number, trace, ns in of_part if ns}
    of_step: dict[tuple[int, int | None], list[Mapping[str, Any]]] = defaultdict(list)
    of_rank: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in sorted(arrivals, key=lambda one: one["collective"]):
        rank = place[row["trace"]]
        late_us = row["late_us"] - by_link.get((row["collective"], rank), 0) / 1e3
        new_us = min(row["new_us"], late_us)
        # The ends of a transfer run different programs, so that one comes later shows by itself no fault.
        is_unproven = row["reason"] == UNKNOWN and row["kind"] in POINT_TO_POINT
        if row["reason"] in _NO_FAULT or is_unproven or new_us * 1e3 < least[rank, row["collective"]]:
            continue
        # What was late to a collective within the stretch is in the stretch again.
        since = -1 if row["since"] is None else row["since"]
        counted = sum(one["new_us"] for one in of_step[rank, row["step"]] if one["collective"] > since)
        new_us = max(new_us - counted, 0.0)
        of_step[rank, row["step"]].append({**row, "new_us": new_us})
        of_rank[rank][row["reason"]] += new_us
    words = {rank: _words(reasons) for rank, reasons in of_rank.items()}
    return [
        Excess(rank, step, word, row["what"] if word == row["reason"] else "", round(row["new_us"] * 1e3))
        for (rank, step), rows in of_step.items()
        for row in rows
        if (word := words[rank].get(row["reason"]))
    ]


def _words(of_rank: Mapping[str, float]) -> dict[str, str]:
    """Reasons of a rank, but for those that are small beside the largest -> what they count as.

    What its kernels do is one reason, that with most lateness. Unknown ones count where no other is larger.
    """
    of_gpu = max(GPU_REASONS, key=lambda one: of_rank.get(one, 0.0))
    words = {reason: of_gpu if reason in GPU_REASONS else reason for reason in of_rank}
    us: dict[str, float] = defaultdict(float)
    for reason, word in words.items():
        us[word] += of_rank[reason]
    most = max(us, key=lambda word: us[word])
    least = 3 * SMALL_PERCENT / 100 * us[most]
    return {reason: word for reason, word in words.items() if us[word] >= least and word in (most, *_KNOWN)}


def _comes_last(figures: Figures, by: tuple[np.ndarray, Ns]) -> dict[int, str]:
    """Place of a rank that comes last with much delay, the most first -> how often; none if most ranks do."""
    last, later = by
    held_up = sum_by_group(last[last >= 0], later[last >= 0], len(figures.matched.ranks))
    least = min(LEAST_PERCENT / 100, LEAST_OF_A_STEP / max(len(_steps(figures)), 1)) * figures.mean_span_ns
    worst = np.flatnonzero((2 * held_up >= held_up.max()) & (held_up >= least))
    worst = worst[np.argsort(-held_up[worst], kind="stable")][: (len(held_up) // 2) * (2 * len(worst) <= len(held_up))]
    return {
        place: f"comes last: {figures.names.ranks([place])}, last to {(last == place).sum():,} of {len(last):,} "
        f"collectives, up to {shown_ms(int(later[last == place].max(initial=0)))} after the median rank; `ranks` shows "
        "who is late by itself"
        for place in worst.tolist()
    }


def _before(figures: Figures, arrivals: Iterable[Mapping[str, Any]]) -> list[str]:
    """Who came late to its first collective for what lies before the recording, if that is much; the latest of all."""
    rows = [row for row in arrivals if row["reason"] == EARLIER and row["what"]]
    row = max(rows, key=lambda one: one["late_us"], default=None)
    if row is None or percent(row["late_us"] * 1e3, figures.mean_span_ns) < LEAST_PERCENT:
        return []
    m = figures.matched
    last = next(place for place, one in enumerate(m.ranks) if one.name == row["trace"])
    parts = m.parts_of(row["collective"])
    least = m.start_ns[parts].max() - row["late_us"] * 1e3 / 2
    beside = [place for place in m.trace[parts[m.start_ns[parts] >= least]].tolist() if place != last]
    also = f", {figures.names.ranks(sorted(beside))} at least half as late" if beside else ""
    late = f"came {shown_ms(row['late_us'] * 1e3)} later to the first {row['kind']} than the median rank"
    return [f"{rank_titles(m.ranks)[last]} {late}{also}: {row['what']}"]


# --- who they are together --------------------------------------------------------------------------------------------


def _by_cause(found: Sequence[Excess]) -> Mapping[tuple[str, str], list[Excess]]:
    """Lateness by reason, that of the host also by what each rank mostly did."""
    did: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in found:
        did[one.place, one.reason]["" if one.reason in GPU_REASONS else one.what.partition(",")[0]] += one.ns
    causes: dict[tuple[str, str], list[Excess]] = defaultdict(list)
    for one in found:
        mostly = did[one.place, one.reason]
        causes[one.reason, max(mostly, key=lambda what: mostly[what])].append(one)
    return causes


class _Cause:
    """Ranks that are late for one reason.

    Args:
        late: how late they are.
        figures: what each collective cost.
        sound: the job without what makes ranks late, where it is replayed.
    """

    def __init__(self, late: Sequence[Excess], figures: Figures, sound: Sound | None) -> None:
        self._kind, self._sound, self._steps = kind_of(late[0].reason), sound, len(_steps(figures))
        self._ranks = len(figures.matched.ranks)
        self.span_ns = figures.mean_span_ns if sound is None else sound.recorded_ns
        self._of_rank: dict[int, dict[int | None, int]] = defaultdict(lambda: defaultdict(int))
        for one in late:
            self._of_rank[one.place][one.step] += one.ns

    def by_step(self, places: Iterable[int]) -> dict[int | None, int]:
        """Number of a step -> how late the latest of some ranks is in it, ns."""
        found: dict[int | None, int] = {}
        for place in places:
            for step, ns in self._of_rank[place].items():
                found[step] = max(ns, found.get(step, 0))
        return found

    def cost_ns(self, places: Sequence[int]) -> int:
        """What some ranks cost together."""
        return sum(self.by_step(places).values()) if self._sound is None else self._sound.cost_ns(places, self._kind)

    def _counts(self, places: Sequence[int]) -> bool:
        cost = self.cost_ns(places)
        if self._sound is not None:
            return self._sound.counts(cost)
        most = max(self.by_step(places).values())
        of_a_step = self._steps > 1 and most >= LEAST_OF_A_STEP * self.span_ns / self._steps
        return of_a_step or percent(cost, self.span_ns) >= LEAST_PERCENT

    def in_turn(self, places: Sequence[int]) -> bool:
        """Whether some ranks are late one after another, and not together."""
        steps, times = len(self.by_step(places)), sum(len(self._of_rank[place]) for place in places)
        return steps > 1 and len(places) > 1 and 2 * times <= len(places) * steps

    def culprits(self) -> list[list[int]]:
        """Ranks that are late together in about the same steps, or in turn, the least half as much as the most."""
        total = {place: sum(of.values()) for place, of in self._of_rank.items()}
        mean = {place: ns / len(self._of_rank[place]) for place, ns in total.items()}
        least = SMALL_PERCENT / 100 * max(total.values()) if self._sound is None else 0.0
        if self._sound is None and self._kind == COMPUTATION:  # durations on GPUs vary by chance, on all ranks
            usual = sorted([*[0] * (self._ranks - len(total)), *total.values()])[(self._ranks - 1) // 2]
            least = max(least, NOISE * usual + 1)
        left = sorted((place for place in total if total[place] >= least), key=lambda place: (-total[place], place))
        found: list[list[int]] = []
        while left:
            first = self._of_rank[left[0]].keys()
            alike = [place for place in left if 2 * mean[place] >= mean[left[0]]]
            same = alike if self.in_turn(alike) else [
                place for place in left
                if 2 * total[place] >= total[left[0]]
                and 2 * len(first & self._of_rank[place].keys()) > len(first | self._of_rank[place].keys())
            ]  # fmt: skip
            left = [place for place in left if place not in same]
            if not found or self._counts(same):
                found.append(same)
            else:
                found[0] = found[0] + same
        return [sorted(places) for places in found if self._counts(places)]


def _grouped(figures: Figures, found: Sequence[Excess], sound: Sound | None) -> Iterable[Culprit]:
    """Culprits: late ranks with one cause."""
    steps, shared = _steps(figures), teams(figures) if found else []
    for (reason, what), late in _by_cause(found).items():
        cause = _Cause(late, figures, sound)
        for places in cause.culprits():
            costs, cost, moves = cause.by_step(places), cause.cost_ns(places), cause.in_turn(places)
            least = SMALL_PERCENT / 100 * max(costs.values())
            struck = sorted(step for step, ns in costs.items() if step is not None and ns >= least)
            of = [one for one in late if one.place in places and one.what.startswith(what)]
            worst = max(of, key=lambda one: (bool(one.what), one.ns))
            yield Culprit(
                tuple(places), called(figures.names, places, moves, shared), tuple(struck), when(struck, steps), moves,
                reason, worst.what, cost, percent(cost, cause.span_ns), _part(figures, cause.span_ns),
                sound is not None and sound.is_at_least, sound is not None and sound.is_mended,
            )  # fmt: skip


def _part(figures: Figures, recorded_ns: float | None = None) -> str:
    """What costs are a share of, in words; of a replay that begins where the last rank does also how long it is."""
    m = figures.matched
    if len(m.whole) != len(m):
        return m.part
    if recorded_ns is None or recorded_ns >= NEARLY * figures.mean_span_ns:  # as of the only step
        return "the recording"
    return f"the {shown_ms(recorded_ns)} in which all ranks recorded"


def _steps(figures: Figures) -> list[int]:
    """The numbers of the steps, ascending."""
    return sorted({step for step in figures.step if step is not None})


# --- nobody -----------------------------------------------------------------------------------------------------------


def _nearly_always_last(m: MatchedCollectives, by: tuple[np.ndarray, Ns]) -> int:
    """Place of a rank that is last to nearly all of its collectives, as none of many is by chance; -1 for none."""
    last = by[0]
    times = np.bincount(last[last >= 0], minlength=len(m.ranks))
    took_part = np.bincount(m.trace[m.order], minlength=len(m.ranks))
    worst = int(np.argmax(times))
    is_so = took_part[worst] >= LEAST_COLLECTIVES and times[worst] >= NEARLY_ALWAYS_PERCENT / 100 * took_part[worst]
    return worst if is_so else -1


def _nobody(figures: Figures, by: tuple[np.ndarray, Ns], sound: Sound | None) -> str:
    """Why no rank is late; of one that comes last nearly always, what that costs."""
    m = figures.matched
    last, later = by
    held_up = sum_by_group(last[last >= 0], later[last >= 0], len(m.ranks))
    worst, most = _nearly_always_last(m, by), int(held_up.max())
    if worst >= 0 and sound is not None:
        most = min(most, sound.longer_ns(worst))
    share = percent(most, figures.mean_span_ns)
    at_most = f"at most {share:.1f} %" if share >= 0.05 else "less than 0.1 %"
    if worst >= 0:
        own = later[last == worst]
        return (
            f"{rank_titles(m.ranks)[worst]} is last to {len(own):,} of {int((m.trace[m.order] == worst).sum()):,} "
            f"collectives, by {shown_ms(float(np.median(own)))} (median): that costs {at_most} of {_part(figures)}"
        )
    if share < LEAST_PERCENT:
        return f"no rank is late: the delays that any one of them causes add up to {at_most} of {_part(figures)}"
    return (
        "no rank is late beside others that do the same: who comes last waited for others before, has work of its own, "
        "or is last by chance"
    )


def odd_files(figures: Figures) -> list[str]:
    """Which files lack what others have, or have what no others have."""
    m = figures.matched
    place_of = {one.rank: place for place, one in enumerate(m.ranks)}
    titles = rank_titles(m.ranks)
    lines = list(m.left_out)
    if any(one.has_gpu_work for one in m.ranks):
        lines += [
            f"{titles[place]}: no GPU work is recorded: its steps count in no time of the device"
            for place, one in enumerate(m.ranks)
            if not one.has_gpu_work
        ]
    lines += [f"{titles[place]}: {one.damage}" for place, one in enumerate(m.ranks) if one.damage]
    missing: dict[int, int] = defaultdict(int)
    for at in m.incomplete.tolist():
        there = {m.ranks[place].rank for place in m.trace[m.parts_of(at)].tolist()}
        for rank in figures.groups.ranks[figures.groups.number[at]] or ():
            missing[rank] += rank not in there
    gone = sorted(rank for rank, count in missing.items() if count and rank not in place_of)
    if gone:
        who = f"rank{'s' * (len(gone) > 1)} {ranges(gone, ' and ')}" + ", or none of this run" * bool(m.left_out)
        lines.append(f"nothing of {who} in {m.part}, or no file" if m.whole is not m else f"no file of {who}")
    short = [
        f"{titles[place_of[rank]]} ({count:,})" for rank, count in sorted(missing.items())
        if count and rank in place_of and not m.ranks[place_of[rank]].damage
    ]  # fmt: skip
    if short:
        more = f" and {len(short) - 8:,} more ranks" if len(short) > 8 else ""
        lines.append(f"collectives of their groups that recordings lack: {', '.join(short[:8])}{more}")
    return lines
