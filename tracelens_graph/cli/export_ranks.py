"""`tracelens-graph export --perfetto` of the ranks of a job: one of them with what the others tell, or all together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from tracelens_graph.analyses.ranks.matched_collectives import Meetings
from tracelens_graph.cli.cut_ranks import clocks_at, joined
from tracelens_graph.cli.traces import load_set, say
from tracelens_graph.graph.trace_set import rank_called
from tracelens_graph.graph.window import whole_window
from tracelens_graph.output.markers import GENERATOR, TOOL
from tracelens_graph.reports.progress import progress_on_terminal
from tracelens_graph.reports.rank_tracks import JobTracks
from tracelens_graph.reports.tracks import KNOWN, process_entries, track_entries, tracks
from tracelens_graph.stores.cut import entries, origin_ns, whole, write_entries
from tracelens_graph.stores.ranks_cut import RankPiece, write_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracelens_graph.graph.trace_set import TraceSet

_PLACES = 1000
"""Numbers between the places of processes of one rank and those of the next, as `write_ranks` has them."""


class ExportedRanks:
    """The ranks of a job, loaded, to be written with their tracks.

    Args:
        files: their traces.
        rank: the one to write, by its number or the name of its trace; None for all of them.

    Raises:
        AnalysisError: there is no such rank.
    """

    def __init__(self, files: Sequence[str], rank: str | None) -> None:
        self._traces: TraceSet = load_set(files).by_rank()
        self._place = None if rank is None else rank_called(self._traces, rank)
        self._meetings = Meetings(self._traces)
        self._job = JobTracks(self._traces, self._meetings)
        say(self._meetings.notes)

    def write(self, file: BinaryIO) -> str:
        """Write the ranks, or the one that was asked for, and say what was written."""
        return self._write_all(file) if self._place is None else self._write_one(file, self._place)

    def _write_one(self, file: BinaryIO, place: int) -> str:
        core = self._traces[place].core
        with progress_on_terminal("copying") as progress:
            texts = entries(whole(core), progress)
        found = tracks(whole_window(core), self._job.of(place, is_alone=True))
        ours = track_entries(whole_window(core), found, origin_ns(core))
        write_entries([*texts, *ours], {**core.info.metadata, "generator": GENERATOR}, file, packed=False)
        title = self._job.titles[place]
        return (
            f"{len(texts):,} entries of {title}, {len(found)} tracks of {len(ours):,} entries beside them by what all "
            f"{len(self._traces):,} ranks tell"
        )

    def _write_all(self, file: BinaryIO) -> str:
        m = self._meetings
        pieces = {
            place: RankPiece(title, whole(one.core), partial(m.clock_ns, place))
            for place, (one, title) in enumerate(zip(self._traces, self._job.titles, strict=True))
        }
        epoch = self._traces[0].clock_ns or 0
        moment = int(m.first_start_ns[0]) if len(m) else 0
        with progress_on_terminal("copying") as progress:
            count = write_ranks(
                list(pieces.values()),
                joined(m, pieces),
                file,
                packed=False,
                epoch_ns=epoch - int(m.parts.shift_ns[0]) if epoch else 0,
                about={"ranks": clocks_at(moment, self._traces, m, pieces)},
                beside=lambda first, free: list(self._beside(first, free)),
                progress=progress,
            )
        return f"{count:,} entries of {len(pieces):,} ranks on one clock, with tracks of each and of the job"

    def _beside(self, first_ns: int, free: int) -> Iterator[bytes]:
        """The tracks of the job and of each rank, as processes of their own above those of the rank."""
        path = self._job.path()
        if path.slices:
            yield from process_entries([path], free, f"{TOOL}: the job", -2, lambda times: times - first_ns)
        for place, one in enumerate(self._traces):
            found = tracks(whole_window(one.core), self._job.of(place, is_alone=False))
            title = f"{self._job.titles[place]}, {TOOL}: {KNOWN}"
            clock = partial(self._on_file, place, first_ns)
            yield from process_entries(found, free + 1 + place, title, _PLACES * place - 1, clock)

    def _on_file(self, place: int, first_ns: int, times_ns: np.ndarray) -> np.ndarray:
        return self._meetings.clock_ns(place, times_ns) - first_ns
