"""The ranks of a job on the terminal, as JSON for programs and as Markdown for a pull request.

All of them say how long a step is, who waits for whom, and what the network does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import percent, shown_ms
from tracelens_graph.analyses.ranks.figures import HELD_UP
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
from tracelens_graph.graph.ranks import Ranked, rank_titles
from tracelens_graph.reports.document import document_json
from tracelens_graph.reports.markdown import escape, page, table_markdown
from tracelens_graph.reports.views import with_headings
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.texts import counted, paragraphs, printable, wrapped

KINDS, RANKS = 5, 8
"""Rows of kinds of collectives and of ranks on the screen."""
_LEAST = 0.05
"""Percent of a step from which copies are shown: what rounds to 0.0 takes no line."""
_LEAST_NS = 500
"""What is less than this is nothing."""
_INDENT = "  "


def screen(job: Job, width: int, color: bool, rows: int | None = None) -> Iterator[str]:
    """The answer in one screen.

    Args:
        rows: rows of each table; 0 for all, None for as many as a screen holds.
    """
    yield from wrapped(printable(head(job)), width, _INDENT)
    yield ""
    yield from (bold(line, color) for line in wrapped(headline(job), width, _INDENT))
    yield from paragraphs(all_lines(job), width, _INDENT)
    for name, most in (("rank_times", 0), ("collective_kinds", KINDS), ("rank_balance", RANKS)):
        table = job.table(name)
        if not len(table):
            continue
        yield ""
        yield from first_rows(table, most if rows is None else rows).text(width, color).splitlines()
    yield from paragraphs(notes(job), width, _INDENT)


def head(job: Job) -> str:
    """How many ranks, hosts and steps there are, and on what device."""
    m = job.matched
    hosts = {host for host in m.hosts if host is not None}
    parts = [counted(len(m.ranks), "rank")]
    if hosts and None not in m.hosts:
        parts.append(f"on {counted(len(hosts), 'host')}")
    if (device := job.figures.architecture) is not None:
        parts.append(f"({device.name})")
    steps = {len(rank.steps) for rank in m.ranks}
    of = f", {counted(max(steps), 'step')} each" if len(steps) == 1 and max(steps) else ""
    matched = f", {counted(len(m), 'collective')} that ranks share"
    return " ".join(parts) + of + matched


def headline(job: Job) -> str:
    """How much of a step is communication, how much of that is waiting, and how much is idle, in a sentence."""
    rows = {row["time"]: row for row in job.table("rank_times").records()}
    if not rows:
        return "No GPU work and no collective was recorded"
    if not len(job.matched):
        return "The ranks share no collective"
    step, exposed, waiting = rows["step"], rows["exposed"], rows["exposed_waiting"]
    ranks = job.matched.ranks
    on_gpu = rows["idle"]["percent"] is not None
    what = "The recording takes" if not any(rank.steps for rank in ranks) else "A step takes"
    where = " on the device" if on_gpu else ""
    kind = "exposed communication" if on_gpu else "communication"  # without GPU work nothing shows what it hides behind
    rest = max(exposed["mean_ms"] - waiting["mean_ms"], 0.0)
    idle = f"; for {rows['idle']['percent']:.1f} % of it the GPU is idle" if on_gpu else ""
    return (
        f"{what} {step['mean_ms']:,.3f} ms{where}; {exposed['percent']:.1f} % of it is {kind}: "
        f"{waiting['mean_ms']:,.3f} ms waiting for other ranks, {rest:,.3f} ms communication itself"
        f"{_doubt(job)}{idle}"
    )


def _doubt(job: Job) -> str:
    """What of communication may be waiting for somebody who is not known."""
    if job.matched.lacking:
        return ", or waiting for ranks that are missing"
    return ", not all of it matched" if job.matched.unmatched else ""


def late_lines(job: Job) -> list[str]:
    """Which links are slow, or why that is not known; who makes the others wait, and why."""
    late = [] if job.lateness is None else job.lateness.lines
    return [*job.link_lines, *late] if job.slow_links else [*late, *job.link_lines]  # open questions behind answers


def all_lines(job: Job) -> list[str]:
    """The same, and how much slower the job is than with even work, where that is known."""
    return [*late_lines(job), *filter(None, [job.slowdown_line])]


def notes(job: Job) -> list[str]:
    """What belongs below the tables of the screen."""
    if not len(job.matched):
        return notes_on_matching(job.matched)
    return [_held_up(job), *notes_on_matching(job.matched)]


def _held_up(job: Job) -> str:
    """What delays in the table add up to; what repairs of the worst culprit and of who holds up others most save."""
    culprits = job.lateness.culprits if job.lateness is not None else ()
    held_up = [ms or 0.0 for ms in job.table("rank_balance")["held_up_ms"]]
    worst = int(np.argmax(held_up))
    said = [HELD_UP.partition(",")[0]]
    if first := next(iter(culprits), None):
        about = "about" if job.sound is not None and len(culprits) == 1 else "at most"
        bound = f"a repair of {first.who} saves {about} {shown_ms(first.late_ns)}"
        beside_others = first.late_ns * (len(culprits) > 1)
        said.append(_repair(job, first.who, first.places, first.of, beside_others) if job.is_replayed else bound)
    if held_up[worst] and not any(worst in one.places for one in culprits):
        who = f"{rank_titles(job.matched.ranks)[worst]}, which holds up others most,"
        said.append(_repair(job, who, (worst,)))
    return "; ".join(filter(None, said)) if any(said[1:]) else HELD_UP


def _repair(job: Job, who: str, places: Sequence[int], of: str = "the recording", late_ns: int = 0) -> str:
    """What a repair of ranks that cost some time saves, as far as a replay shows; empty where nothing shows it."""
    found = job.repaired(places)
    if found is None:
        return ""
    at_least = "at least " * found.is_at_least
    if found.saved_ns <= 10 * found.error_ns and not at_least:
        most = max(found.saved_ns, 0) + found.error_ns
        return f"a repair of {who} saves " + (f"at most {shown_ms(most)}" if most >= _LEAST_NS else "nothing")
    share = percent(found.saved_ns, found.path.length_ns)
    differs = late_ns and 100 * abs(late_ns - found.saved_ns) > late_ns
    late = f", {shown_ms(late_ns)} once no other rank is late" if differs else ""
    return f"a repair of {who} saves {at_least}{shown_ms(found.saved_ns)} ({share:.1f} % of {of}){late}"


def first_rows(table: Table, most: int) -> Table:
    """The columns for people that show something, and the first rows; of ranks those that hold up the others most."""
    if table.name == "rank_balance" and most and len(table) > most:
        order = np.argsort(-np.array(table["held_up_ms"], float), kind="stable")
        table = replace(table.take(order), title=f"{table.title}, those that hold up the others most first")
    if table.name == "rank_balance" and len(set(table["rank"])) < len(table):  # else nothing says which one a row is
        table = replace(table, columns={**table.columns, "rank": table["trace"]})
    if table.name == "rank_times":
        shares = zip(table["time"], table["percent"], strict=True)
        small = [name == "copying" and (share or 0) < _LEAST for name, share in shares]
        table = table.take(np.flatnonzero(~np.array(small, bool)))
    cut = replace(table, notes=[])
    if most and len(cut) > most:
        cut = replace(
            cut.take(np.arange(most)), notes=[f"the first {most:,} of {len(table):,} rows (--top 0 shows all)"]
        )
    shown = with_headings(cut, leave="meaning")
    differing = {name: cells for name, cells in shown.columns.items() if _differs(name, list(cells))}
    if "% of peak" not in differing:
        differing.pop("peak GB/s", None)
    return replace(shown, columns=differing or shown.columns)


def _differs(name: str, cells: Sequence[object]) -> bool:
    """Whether a column has values, and more than one host: their number is in the first line."""
    known = [cell for cell in cells if cell not in (None, "") and cell == cell]
    return bool(known) and (name != "host" or len(set(known)) > 1)


_ON_PAGE = {"rank_times": "Of a step", "collective_kinds": "Collectives", "rank_balance": "Ranks"}


def ranks_json(job: Job) -> str:
    """The ranks as one JSON object: the headline, stragglers, notes, and all tables."""
    about = {
        "headline": headline(job),
        "late": late_lines(job),
        "slowdown": job.slowdown_line,
        "notes": notes_on_matching(job.matched),
    }
    return document(job.matched.ranks, about, job.tables())


def document(ranks: Sequence[Ranked], about: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    """Facts about some ranks, and tables, as one JSON object."""
    return document_json({**about, "ranks": [{"name": one.name, "rank": one.rank} for one in ranks]}, tables)


def ranks_markdown(job: Job, rows: int = 20) -> str:
    """The ranks as a page: the headline, who is late, and the tables of the screen.

    Args:
        rows: rows of each table; 0 for all.
    """
    blocks = [f"## {escape(head(job))}", f"**{escape(headline(job))}**", *map(escape, all_lines(job))]
    blocks += [
        f"### {title}\n\n{table_markdown(first_rows(job.table(name), rows))}" for name, title in _ON_PAGE.items()
    ]
    blocks += [escape(note) for note in notes_on_matching(job.matched)]
    return page(blocks)
