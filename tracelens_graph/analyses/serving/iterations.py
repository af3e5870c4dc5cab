"""The iterations of a server side by side: what each computed for how many requests, and how long that took.

As with steps, an iteration is measured twice: on the host as the range that the engine marks, on the device from the
first start of GPU work launched in it to the first start of that of later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.idle.idle import Cause, Idle, behind_cut_off_work, idle_parts, leading_causes
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.analyses.timeline.steps import on_device
from tracelens_graph.analyses.timeline.timeline import times_by_group, unlinked_notes
from tracelens_graph.graph.batches import Batch
from tracelens_graph.graph.classes import launches_graphs
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.iterations import Iterations, iterations_of, left_out_of
from tracelens_graph.graph.membership import process_of_thread
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask, Ns, Rows
from tracelens_graph.utils.texts import counted

TOKENS_PER_S = Column("tokens of prompts and answers by device_ms", "1/s", heading="tokens/s", drop_priority=0)

ITERATIONS = TableSchema(
    "iterations",
    "What each step of a server computed, and how long it took.",
    {
        "iteration": Column.key(
            "number of the iteration, from 0; absent on the line of GPU events launched in none", "iteration", "number"
        ),
        "phase": Column.text("prefill, mixed, decode, denoise, empty, or unknown", "phase", drop_priority=-1),
        "requests": Column("requests computed together", heading="requests", drop_priority=-1),
        "context_requests": Column("those that read their prompts", drop_priority=2),
        "context_tokens": Column("tokens of prompts that it reads", heading="context tokens"),
        "generation_requests": Column("those that write their answers", drop_priority=2),
        "generation_tokens": Column("tokens of answers, guessed ones included", heading="generation tokens"),
        "keys": Column("tokens that requests attend to, past and new ones", heading="keys", drop_priority=2),
        "captured": Column("batch size of the captured graph that it replays", heading="captured"),
        "padding": Column("places of the captured batch that are empty", heading="padding", drop_priority=0),
        "start_ms": Column.moment("its start on the host, as Perfetto UI shows it", "ms"),
        "host_ms": Column("its duration on the host", "ms", heading="host ms", drop_priority=2),
        "device_ms": Column(
            "from the first start of its GPU work to the first start of that of later ones; of the last to the end of "
            "its work; without waiting at the start of the recording for work launched earlier",
            "ms",
            heading="device ms",
            drop_priority=-1,
        ),
        "gpu_events": Column.count("GPU events launched in it", drop_priority=2),
        "gpu_sum_ms": Column.total("sum of their durations", "ms", drop_priority=2),
        "busy_ms": Column("time in which any of them runs", "ms", heading="busy ms", drop_priority=2),
        "idle_ms": Column("part of device_ms in which no GPU event runs", "ms", heading="idle ms", drop_priority=0),
        "gap_ms": Column(
            "idle time of the GPU between work of another iteration, or of none, and its own", "ms", heading="gap ms"
        ),
        "gap_cause": Column.text(
            "what most of the longest of these gaps is due to, as in `idle_causes`", "gap due to", drop_priority=1
        ),
        "host_gap_ms": Column(
            "time on the host from the end of the iteration before it, of its process, to its start", "ms",
            heading="host gap ms", drop_priority=2,
        ),
        "tokens_per_s": TOKENS_PER_S,
        "uid": Column.instance("uid of the annotation, or of its first call"),
    },
)  # fmt: skip

BETWEEN = "(between)"
"""The phase of GPU work launched in no iteration."""


@dataclass(frozen=True, eq=False)
class Served:
    """The iterations of a window, with what is measured of them; arrays have an entry for each.

    Attributes:
        window: the window.
        found: the iterations of the graph.
        numbers: which of them are in the window.
        group: of each GPU event of the window its place among them; len(numbers) for none.
    """

    window: Window
    found: Iterations
    numbers: np.ndarray
    group: np.ndarray

    @cached_property
    def timed(self) -> Served:
        """The iterations by which lengths and gaps are measured: all that the window was chosen from.

        An iteration lasts until the next one begins, also if that is not in the window, whose work is no idle time.
        Time at the start is left out in which the GPU ran work that the recording cut off.
        """
        whole = self.window.all_iterations or self.window
        start = behind_cut_off_work(whole)
        if start is not None:
            whole = narrow(whole, after_ns=start)
        return self if whole is self.window else served_in(whole)

    @property
    def notes(self) -> list[str]:
        """What iterations are, and what time at the start none of them has."""
        found, w = [f"iterations are {self.found.source}"], self.window
        behind, start = behind_cut_off_work(w.all_iterations or w) or 0, w.core.columns.start_ns[w.gpu_rows]
        if early := int(np.count_nonzero(start < behind)):
            found.append(
                f"lengths on the device leave out {(behind - int(start.min())) / 1e6:,.1f} ms of waiting at the start, "
                f"for work launched earlier; busy time and sums count the {counted(early, 'GPU event')} in it"
            )
        return found

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def phases(self) -> np.ndarray:
        """The phase of each."""
        return self.found.phases[self.numbers]

    @property
    def batches(self) -> list[Batch]:
        """What each computes."""
        return [self.found.batches[number] for number in self.numbers.tolist()]

    def of_batches(self, figure: Callable[[Batch], int], known: Callable[[Batch], bool] = lambda _: True) -> np.ndarray:
        """A figure of each batch, NaN where it is not known."""
        counted = (batch.phase != "unknown" and known(batch) for batch in self.batches)
        return np.array(
            [figure(batch) if is_known else np.nan for batch, is_known in zip(self.batches, counted, strict=True)],
            float,
        )

    @cached_property
    def requests(self) -> np.ndarray:
        """Requests computed together."""
        return self.of_batches(lambda batch: batch.size, lambda batch: batch.size > 0 or batch.phase == "empty")

    @cached_property
    def context_tokens(self) -> np.ndarray:
        """Tokens of prompts."""
        return self.of_batches(lambda batch: batch.context.sq, _counts_tokens)

    @cached_property
    def generation_tokens(self) -> np.ndarray:
        """Tokens of answers."""
        return self.of_batches(lambda batch: batch.generation.sq, _counts_tokens)

    @property
    def tokens(self) -> np.ndarray:
        """Tokens of both."""
        return self.context_tokens + self.generation_tokens

    @cached_property
    def keys(self) -> np.ndarray:
        """Tokens that are attended to."""
        return self.of_batches(lambda batch: batch.context.sk + batch.generation.sk, lambda batch: batch.has_keys)

    @cached_property
    def captured(self) -> np.ndarray:
        """Batch size of the graph that each replays, NaN if not known."""
        core = self.window.core
        sizes = np.array([batch.captured or np.nan for batch in self.found.batches], float)
        for entry in core.info.replays:
            if (size := entry.batch_size) is not None:
                launches = core.rows_of(entry.launches)
                of = self.found.of[launches[launches >= 0]]
                sizes[of[of >= 0]] = np.fmax(sizes[of[of >= 0]], size)
        return sizes[self.numbers]

    @cached_property
    def of_unknown_size(self) -> Mask:
        """Which of them replay graphs that were captured for an unknown batch."""
        launch = self.window.core.columns.parent[self.window.gpu_rows]
        replays = np.zeros(len(self) + 1, bool)
        replays[self.group[(launch >= 0) & launches_graphs(self.window.core, np.maximum(launch, 0))]] = True
        return replays[:-1] & np.isnan(self.captured)

    @property
    def padding(self) -> np.ndarray:
        """Empty places of the captured batch. Engines count them in requests, or in tokens where these fit, too."""
        used = np.where(self.tokens <= self.captured, np.fmax(self.tokens, self.requests), self.requests)
        return np.where(used <= self.captured, self.captured - used, np.nan)

    @cached_property
    def on_device_ns(self) -> tuple[Ns, Ns]:
        """Of each its length on the device, and how long any GPU event runs in it; and 0 for none."""
        if self.timed is not self:
            length, busy = self.timed.on_device_ns
            return self._of_timed(length), self._of_timed(busy)
        core = self.window.core
        process = process_of_thread(core.threads)[np.maximum(core.columns.thread[self.found.rows[self.numbers]], 0)]
        length, busy = on_device(core, self.window.gpu_rows, self.group, process)
        if left_out := left_out_of(core):
            length[:-1] = left_out.device_ns[self.numbers]
        return length, busy

    @cached_property
    def device_ms(self) -> np.ndarray:
        """Length on the device, NaN without GPU work."""
        length = self.on_device_ns[0][:-1]
        return np.where(length > 0, length / 1e6, np.nan)

    @cached_property
    def busy_ns(self) -> Ns:
        """Time in which GPU events of each run; and of those that are in none."""
        return times_by_group(self.window.core, self.window.gpu_rows, self.group, len(self) + 1)["busy_time"]

    @cached_property
    def between(self) -> Mask:
        """Of each idle gap of the GPU whether it lies between iterations: work of two of them, or of none."""
        idle, of = self.idle, self.found.of
        own = self.window.holds(idle.row)
        return own & ((of[idle.row] != of[idle.ended]) | (of[idle.row] < 0))

    @property
    def idle(self) -> Idle:
        """The idle gaps of the GPU, those that end with other work included."""
        return idle_parts(self.timed.window)

    @cached_property
    def gap_ns(self) -> Ns:
        """Idle time of the GPU before the work of each, and of those events that are in none."""
        return self._idle_before(self.between)

    @cached_property
    def inside_ns(self) -> Ns:
        """Idle time of the GPU between events of each."""
        return self._idle_before(self.window.holds(self.idle.row) & ~self.between)

    def _idle_before(self, gaps: Mask) -> Ns:
        """Length of some gaps by the iteration of the event that ends them."""
        idle = self.idle
        of = self._place[self.found.of[idle.row]][gaps]
        return sum_by_group(of, (idle.end - idle.start)[gaps], len(self) + 1)

    @cached_property
    def gap_causes(self) -> list[str | None]:
        """What the longest gap before the work of each is mostly due to, and before those events that are in none."""
        at, idle = np.flatnonzero(self.between), self.idle
        of = self._place[self.found.of[idle.row[at]]]
        causes, found = leading_causes(idle), np.full(len(self) + 1, -1)
        shortest_first = np.lexsort((-idle.start[at], (idle.end - idle.start)[at]))
        found[of[shortest_first]] = causes[at[shortest_first]]
        return [Cause(cause).name if cause >= 0 else None for cause in found.tolist()]

    @cached_property
    def _place(self) -> Rows:
        """Of each iteration of the graph its place among these; the number of these for others, and for none."""
        place = np.full(len(self.found) + 1, len(self))
        place[self.numbers] = np.arange(len(self))
        return place

    def _of_timed(self, values: Ns) -> Ns:
        """Of values of the iterations that are measured those of these; 0 where none of its work is."""
        found = np.zeros(len(self.found) + 1, values.dtype)
        found[self.timed.numbers] = values[:-1]
        return found[np.append(self.numbers, len(self.found))]

    @cached_property
    def counts(self) -> dict[str, np.ndarray]:
        """What each computes, by column; NaN where it is not known."""
        return {
            "requests": self.requests,
            "context_requests": self.of_batches(lambda batch: batch.context.count, _counts_requests),
            "context_tokens": self.context_tokens,
            "generation_requests": self.of_batches(lambda batch: batch.generation.count, _counts_requests),
            "generation_tokens": self.generation_tokens, "keys": self.keys, "captured": self.captured,
            "padding": self.padding,
        }  # fmt: skip

    @cached_property
    def idle_ms(self) -> np.ndarray:
        """Part of the length on the device in which no GPU event runs, NaN without GPU work."""
        length, busy = self.on_device_ns
        return np.where(length > 0, (length - busy) / 1e6, np.nan)[:-1]

    @cached_property
    def host_gap_ms(self) -> np.ndarray:
        """Time on the host since the iteration before ended, NaN for the first of a process."""
        core, rows = self.window.core, self.found.rows
        process = process_of_thread(core.threads)[np.maximum(core.columns.thread[rows], 0)]
        start = core.columns.start_ns[rows]
        gap = np.full(len(rows), np.nan)
        gap[1:] = np.where(process[1:] == process[:-1], (start[1:] - (start + self.found.dur_ns)[:-1]) / 1e6, np.nan)
        return np.maximum(gap, 0)[self.numbers]


def _counts_tokens(batch: Batch) -> bool:
    return batch.phase == "empty" or batch.context.sq + batch.generation.sq > 0


def served_in(g: Core | Window) -> Served:
    """The iterations of a window: those that begin in it, and those of its GPU events."""
    return window_of(g).once(_served)


def _served(w: Window) -> Served:
    found = iterations_of(w.core)
    of = found.of[w.gpu_rows]
    inside = w.holds(found.rows)
    inside[of[of >= 0]] = True
    numbers = np.flatnonzero(inside)
    place = np.full(len(found) + 1, len(numbers))
    place[numbers] = np.arange(len(numbers))
    return Served(w, found, numbers, place[of])


def iterations(g: Core | Window) -> Table:
    """One row per iteration of a server, by process and start.

    Iterations are the ranges that vLLM, SGLang, ATOM and xDiT mark, else `record_function` ranges of one name that
    launch most of the GPU work, else calls that repeat; a note says which. Figures of the batch are there as far as the
    engine writes them. GPU events launched in no iteration, such as those of sampling between two, are a row of their
    own, so GPU events and their sums add up to those of the window.
    """
    w = window_of(g)
    served = served_in(w)
    title = w.titled("Iterations of a server")
    if not len(served):
        return ITERATIONS.empty(title, no_iterations(w))
    core, c, gpu = w.core, w.core.columns, w.gpu_rows
    count = len(served) + 1
    rows = served.found.rows[served.numbers]
    tokens_per_s = np.divide(served.tokens * 1e3, served.device_ms, where=served.tokens > 0, out=_unknown(len(served)))
    figures = {
        "start_ms": core.info.shown_ms(c.start_ns[rows]), "host_ms": served.found.dur_ns[served.numbers] / 1e6,
        "device_ms": served.device_ms, "idle_ms": served.idle_ms, "host_gap_ms": served.host_gap_ms,
        "tokens_per_s": tokens_per_s,
    }  # fmt: skip
    columns: dict[str, Cells] = {
        "iteration": [*served.numbers.tolist(), None],
        "phase": [*served.phases.tolist(), BETWEEN],
        **{name: [*_whole(cells), None] for name, cells in served.counts.items()},
        **{name: np.append(cells, np.nan) for name, cells in figures.items()},
        "gpu_events": np.bincount(served.group, minlength=count),
        "gpu_sum_ms": sum_by_group(served.group, c.dur_ns[gpu], count) / 1e6, "busy_ms": served.busy_ns / 1e6,
        "gap_ms": served.gap_ns / 1e6, "gap_cause": served.gap_causes, "uid": [*c.uid[rows].tolist(), None],
    }  # fmt: skip
    shown = np.arange(count if columns["gpu_events"][-1] else count - 1)
    table = ITERATIONS.table({name: columns[name] for name in ITERATIONS}, title, _notes(served))
    return table.take(shown)


def no_iterations(w: Window) -> list[str]:
    """Why a window has no iterations."""
    return [f"the {'window' if w.title else 'trace'} has no iterations: no annotation of an engine, no repeats"]


def _notes(served: Served) -> list[str]:
    outside = int(np.count_nonzero(served.group == len(served)))
    unknown = int(np.count_nonzero(served.phases == "unknown"))
    notes = served.notes
    if unknown:
        notes.append(f"{unknown:,} of {len(served):,} iterations do not say what they compute")
    if outside:
        notes.append(f"{outside:,} of {len(served.group):,} GPU events were launched in no iteration")
    return [*notes, *unlinked_notes(served.window, False)]


def _counts_requests(batch: Batch) -> bool:
    return batch.phase != "mixed" or batch.context.count + batch.generation.count > 0


def _whole(values: np.ndarray) -> list[int | None]:
    return [int(value) if np.isfinite(value) else None for value in values.tolist()]


def _unknown(count: int) -> np.ndarray:
    return np.full(count, np.nan)
