"""The links of a job as a table, and the slow ones in words."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import shown_ms
from tracelens_graph.analyses.ranks import COLUMNS as OF_RANKS
from tracelens_graph.analyses.ranks.collective_tables import number_of_ranks, shown_bytes
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.links import LATENCY_BYTES, Link, Links
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.outliers import ENOUGH, FACTOR_OF_FEW
from tracelens_graph.analyses.ranks.slow_links import SlowLinks
from tracelens_graph.analyses.stragglers.reasons import LINK
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

RANK_LINKS = TableSchema(
    "rank_links",
    "How fast each link of a job is: process groups, pairs of ranks, hosts and switches.",
    {
        "level": Column.key(
            "what the link joins: ranks of a `group`, a `pair` of sender and receiver, or the `hosts` or `switches` of "
            "such links, if known",
            "level",
            drop_priority=0,
        ),
        "link": Column.key(
            "its ranks and what the program calls them, or its hosts or switches", "link", drop_priority=-1
        ),
        "kind": Column.key("kind of collective", "kind"),
        "message_bytes": Column.key("median size of the message", cells="number"),
        "source_rank": Column("number of the rank that sends; absent unless a pair"),
        "target_rank": Column("number of the rank that receives; absent unless a pair"),
        "ranks": Column("ranks of the group; for hosts and switches, of each of their links"),
        "hosts": Column("hosts of these ranks; absent where not known"),
        "count": Column.count("collectives", heading="count"),
        "message": Column.text("the size of the message, with its unit", heading="message", drop_priority=0),
        "latency_us": Column(
            "median of the shortest duration on any rank, scaled to the message of this row: communication without "
            "waiting",
            "us",
            Role.spread,
            heading="latency us",
            drop_priority=2,
        ),
        "busbw_gb_s": Column(
            "bus bandwidth at this latency, GB of 10^9 bytes",
            "GB/s",
            Role.spread,
            heading="bus GB/s",
            drop_priority=0,
        ),
        "others": Column(
            "links of equal kind, size, ranks and hosts that it is compared with", heading="others", drop_priority=2
        ),
        "others_latency_us": Column("median of their latencies; absent without others", "us", Role.spread),
        "others_busbw_gb_s": Column(
            "bus bandwidth at this latency; absent without others",
            "GB/s",
            Role.spread,
            heading="their GB/s",
        ),
        "times_slower": Column(
            "its latency over theirs; absent without others", "times", Role.spread, heading="times slower",
            drop_priority=-1,
        ),
        "excess_ms": Column.total(
            "how much longer than theirs its collectives took, summed; below 0 if shorter", "ms", heading="excess ms"
        ),
        "busy_percent": Column(
            "median share of this time in which one of its ranks also computed or communicated, both added; such links "
            "may be slower for that reason",
            "%",
            Role.spread,
        ),
        "verdict": Column.text(
            "`slow` where neither chance nor what runs beside accounts for it", "verdict", drop_priority=-1
        ),
    },
    reads=OF_RANKS,
)  # fmt: skip

OPEN_SHARE = 0.05
"""Of the communication: what too few collectives of a link take longer is worth a line from it on."""

MOST_LINES = 3
"""Slow links that are named, the most expensive first."""


def rank_links(figures: Figures, links: Links) -> Table:
    """Links of a job, slow ones and those that cost most first; see `RANK_LINKS`."""
    m, names = figures.matched, figures.names
    rows = []
    for one in links.all:
        ends = names.numbers(one.places) if one.is_pair else (None, None)
        rows.append(_row("pair" if one.is_pair else "group", names.short_link(one.places, one.is_pair), [one], *ends))
    for level, plural, of in (("host", "hosts", names.hosts), ("switch", "switches", names.switches)):
        alike: dict[tuple[Hashable, ...], list[Link]] = {}
        for one in links.all:
            named = {number for place in one.places if (number := of[place]) is not None}
            if named and len(set(of)) > 1:
                key = (names.places(level, named, short=True), *one.alike, one.hosts)
                alike.setdefault(key, []).append(one)
        rows += [_row(plural, str(key[0]), some) for key, some in alike.items()]
    rows.sort(key=lambda row: (row["verdict"] != "slow", -row["excess_ms"], row["level"], row["link"], row["kind"]))
    notes = []
    if left := int((figures.size > 0).sum() - sum(len(one.collectives) for one in links.all)):
        notes.append(f"{left:,} of {len(m):,} collectives are left out, since ranks of their groups are missing")
    if left := int((~(figures.size > 0)).sum()):
        notes.append(f"{left:,} of {len(m):,} collectives are left out, since their sizes are not known or zero")
    return RANK_LINKS.of_records(rows, f"Links of {number_of_ranks(figures)}", notes)


def _row(
    level: str, name: str, some: list[Link], source: int | None = None, target: int | None = None
) -> dict[str, Any]:
    """The row of links of one kind, size and number of ranks taken together."""
    first = some[0]
    counts = np.array([len(one.collectives) for one in some])

    def median(values: list[float]) -> float | None:
        known = np.repeat(values, counts)
        known = known[~np.isnan(known)]
        return float(np.median(known)) if len(known) else None

    ns, typical = median([one.ns for one in some]), median([one.typical_ns for one in some])
    bus, their = (None if one is None else first.bandwidth(one) for one in (ns, typical))
    slow = sum(one.is_slow for one in some)
    return {
        "level": level,
        "link": name,
        "source_rank": source,
        "target_rank": target,
        "kind": first.kind,
        "message_bytes": int(first.size),
        "ranks": len(first.places),
        "hosts": first.hosts,
        "count": int(counts.sum()),
        "message": shown_bytes(first.size),
        "latency_us": None if ns is None else ns / 1e3,
        "busbw_gb_s": bus,
        "others": max(one.others for one in some),
        "others_latency_us": None if typical is None else typical / 1e3,
        "others_busbw_gb_s": their,
        "times_slower": median([one.factor for one in some]),
        "excess_ms": sum(one.excess_ns for one in some if one.others) / 1e6,
        "busy_percent": 100 * float(np.median([one.contended for one in some])),
        "verdict": "slow" if slow == len(some) else f"{slow} of {len(some)} slow" if slow else "",
    }


def slow_link_lines(slow: Sequence[SlowLinks]) -> list[str]:
    """The slow links in words, the most expensive first; empty where none is proven slow."""
    lines = [_line(one) for one in slow[:MOST_LINES]]
    if more := len(slow) - len(lines):
        lines.append(f"and {more:,} more slow link{'s' * (more > 1)} (--table rank_links)")
    return lines


def open_links(figures: Figures, links: Links) -> str:
    """Which links could not be judged, and why: one that seems slow, or those with at least half of the communication.

    Empty where all could.
    """
    ns: dict[Link, float] = {one: one.ns * len(one.collectives) for one in links.all}
    half = sum(ns.values()) / 2
    seems = [one for one in ns if one.others and one.factor >= FACTOR_OF_FEW and len(one.collectives) < ENOUGH]
    worst = max(seems, key=lambda one: one.excess_ns, default=None)
    if worst is not None and not worst.is_slow and worst.excess_ns >= OPEN_SHARE * 2 * half:
        count = len(worst.collectives)
        return (
            f"not judged: {figures.names.link(worst.places, worst.is_pair)} may be slow: {worst.kind} of "
            f"{shown_bytes(worst.size)} takes {worst.factor:.1f} times as long as on {worst.others:,} others, but only "
            f"{count:,} collective{'s' * (count > 1)} show it"
        )
    alone = [one for one in ns if not one.others]
    where = "; --table rank_links has the bandwidths"
    if alone and sum(ns[one] for one in alone) >= half:
        most = max(alone, key=lambda one: ns[one])
        name = figures.names.link(most.places, most.is_pair).removeprefix("group of ")
        return f"links could not be compared: no group but {name} has such collectives{where}"
    crossing = [one for one in ns if (one.hosts or 0) > 1]
    if (
        crossing
        and len({frozenset(figures.names.hosts[at] for at in one.places) for one in crossing}) == 1
        and sum(ns[one] for one in crossing) >= half
    ):
        return f"links between hosts could not be compared: all groups cross the same hosts{where}"
    return ""


def _joined(level: str) -> str:
    way = {"from": "from", "into": "to", "hosts": "between", "switches": "between"}
    return way.get(level.split()[0], "of")


def with_slow_links(table: Table, m: MatchedCollectives, slow: Sequence[SlowLinks]) -> Table:
    """The table `slowdown` with the slow links in which workers with slow transfers take part: all wait for one."""
    place = {rank.name: at for at, rank in enumerate(m.ranks)}
    of_place: dict[int, str] = {}
    for one in reversed(slow):
        of_place |= {at: _called(one) for link in one.links for at in link.places}
    what = [
        f"{of_place[place[name]]}; {text}" if reason == LINK and place.get(name) in of_place else text
        for name, reason, text in zip(table["name"], table["reason"], table["what"], strict=True)
    ]
    return replace(table, columns={**table.columns, "what": what})


def _called(slow: SlowLinks) -> str:
    places = {one.places for one in slow.links}
    if slow.cause.level in ("pair", "group", "ranks"):
        return f"slow link: {slow.name}"
    share = f"all {slow.of:,}" if len(places) == slow.of else f"{len(places):,} of {slow.of:,}"
    return f"slow links: {share} {_joined(slow.cause.level)} {slow.name}"


def _line(slow: SlowLinks) -> str:
    worst = slow.links[0]
    number = sum(len(one.collectives) for one in slow.links)
    rates = f"{worst.ns / 1e3:,.4g} against {worst.typical_ns / 1e3:,.4g} us"
    bus, theirs = worst.bandwidth(worst.ns), worst.bandwidth(worst.typical_ns)
    if worst.size >= LATENCY_BYTES and not np.isnan(bus):
        rates = f"{bus:.3g} against {theirs:.3g} GB/s on the bus"
    unknown = "; hosts are not known: it may be the one that leaves a host" if worst.hosts is None else ""
    others = f"{worst.others:,} other link{'s' * (worst.others > 1)}"
    own = len(worst.collectives)
    count = f"{own:,} collective{'s' * (own > 1)}"
    in_all = f"adds at most {shown_ms(slow.excess_ns)} in all"
    if number > own:
        in_all += f", to {number:,} collectives of all kinds and sizes"
    if rings := sum(len(one.link.collectives) for one in slow.rings):
        in_all += f", with {rings:,} collective{'s' * (rings > 1)} of larger groups, which it bounds"
    return (
        f"{_called(slow)}: {worst.kind} of {shown_bytes(worst.size)} takes {worst.factor:.1f} times as long "
        f"as on {others} of equal kind and size ({rates}, {count}); {in_all}{unknown}"
    )
