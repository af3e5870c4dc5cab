"""Ranks of jobs: their numbers, what they are called, and what is odd about those of a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Protocol

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.utils.texts import whole_number

_RANK_IN_NAME = re.compile(r"rank[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE)


class Ranked(Protocol):
    """What has the name of a trace, and the number of its rank where that is known."""

    @property
    def name(self) -> str:
        """Name of the trace."""

    @property
    def rank(self) -> int | None:
        """Number of the rank in its job."""


def rank_number(ranks: Sequence[Ranked], place: int) -> int:
    """Number of a rank in its job, else its place among the ranks."""
    number = ranks[place].rank
    return place if number is None else number


def rank_titles(ranks: Sequence[Ranked]) -> list[str]:
    """What people call each rank: `rank 3`, or the name of its trace where no number separates it from others."""
    numbers = Counter(one.rank for one in ranks)
    return [one.name if one.rank is None or numbers[one.rank] > 1 else f"rank {one.rank}" for one in ranks]


def rank_called(ranks: Sequence[Ranked], what: int | str) -> int:
    """Place of the rank that is called by its number (`2`), see `rank_number`, or by the name of its trace (`rank2`).

    Raises:
        AnalysisError: none is called so, or several are.
    """
    number = what if isinstance(what, int) else whole_number(what)
    places = [at for at in range(len(ranks)) if number is not None and rank_number(ranks, at) == number]
    places = places or [at for at, one in enumerate(ranks) if one.name == what]
    if len(places) == 1:
        return places[0]
    if places:
        names = _listed([ranks[at].name for at in places])
        raise AnalysisError(f"{what} is the number of several ranks: name the trace, one of {names}")
    there = _listed([f"{rank_number(ranks, at)} ({one.name})" for at, one in enumerate(ranks)])
    raise AnalysisError(f"there is no rank {what} among {there}")


class OfRun(Ranked, Protocol):
    """The same with its run, and facts about the trace."""

    @property
    def run(self) -> str:
        """Name of the run."""

    @property
    def info(self) -> TraceInfo:
        """Facts about the trace."""


def rank_of(info: TraceInfo) -> int | None:
    """Rank in the job: from the metadata, else from the name of the file."""
    return info.rank if info.rank is not None else rank_in_name(PurePath(info.source).name)


def rank_in_name(name: str) -> int | None:
    """The rank in the name of a file such as `rank3.json.gz`; None if there is none."""
    found = _RANK_IN_NAME.search(name)
    return int(found[1]) if found else None


def rank_notes(members: Sequence[OfRun]) -> Iterator[str]:
    """Which ranks of a run are missing, doubled, or of a job of another size; which traces say nothing usable."""
    for run in dict.fromkeys(one.run for one in members):
        of_run = [one for one in members if one.run == run]
        where = f"run {run}: " if run else ""
        if odd := [f"{one.name}: {', '.join(one.info.odd_job)}" for one in of_run if one.info.odd_job]:
            traces = "1 trace" if len(odd) == 1 else f"{len(odd):,} traces"
            yield f"{where}what {traces} say{'s' * (len(odd) == 1)} of the job cannot be: {_listed(odd, sep='; ')}"
        ranks = [one for one in of_run if one.info.world_size]
        sizes = Counter(one.info.world_size for one in ranks)
        if len(ranks) < 2 or not sizes:
            continue
        size = sizes.most_common(1)[0][0] or 0
        for one in ranks:
            if one.info.world_size != size:
                yield f"{where}{one.name} is of a job of {one.info.world_size} ranks, the others of {size}"
        there = Counter(one.rank for one in of_run if one.rank is not None)
        missing = [rank for rank in range(size) if rank not in there]
        unknown = sum(one.rank is None for one in of_run)  # any of them may be one that seems to be missing
        if unknown and len(missing) > unknown:
            yield f"{where}{len(missing) - unknown:,} or more of {size} ranks are missing"
        elif missing and not unknown:
            ranks_missing = f"rank {missing[0]} is" if len(missing) == 1 else f"ranks {_listed(missing)} are"
            yield f"{where}{ranks_missing} missing: the job has {size}"
        if doubled := sorted(rank for rank, count in there.items() if count > 1):
            yield f"{where}rank {_listed(doubled)} is there more than once"


def _listed(parts: Sequence[object], most: int = 8, sep: str = ", ") -> str:
    text = sep.join(map(str, parts[:most]))
    return text if len(parts) <= most else f"{text} and {len(parts) - most:,} more"
