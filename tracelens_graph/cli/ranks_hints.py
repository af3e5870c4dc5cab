"""What `tracelens-graph ranks` suggests to ask next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracelens_graph.cli.windows import WindowChoice

if TYPE_CHECKING:
    from tracelens_graph.analyses.ranks.job import Job
    from tracelens_graph.graph.trace_set import Ranked
    from tracelens_graph.tables.table import Table

NEXT = "ask next: "
"""What a line begins with that suggests a command."""

_PROGRAM = "tracelens-graph"


@dataclass(frozen=True)
class Asked:
    """The traces that were named, and the part of them: what commands that follow keep to."""

    traces: Sequence[str]
    window: WindowChoice

    @property
    def step(self) -> int | None:
        """The step, where one whole step is asked for."""
        step = self.window.step
        return step[0] if step is not None and self.window == WindowChoice(step=step[:1]) else None

    def next(self, *words: str) -> str:
        """A line that suggests `ranks` with other options."""
        window = [word for option in self.window.arguments() for word in option]
        return f"{NEXT}{_PROGRAM} ranks {shlex.join([*self.traces, *window, *words])}"

    def cut(self, number: int, key: str) -> str:
        """A line that suggests to cut out a collective."""
        # Collectives are numbered anew in a part of the traces; keys stay.
        wanted = str(number) if self.window == WindowChoice() else key
        return f"{NEXT}{_PROGRAM} cut {shlex.join([*self.traces, '--collective', wanted])} -o collective.json.gz"

    def below_screen(self, job: Job) -> list[str]:
        """What to ask after the first screen."""
        if not len(job.matched):
            return []
        is_late = job.lateness is not None and job.lateness.late is not None
        found = [self.next("--table", "late_ranks" if is_late else "rank_collectives")]
        found += self._repair(job)
        if any(len(rank.gpu.busy[0]) for rank in job.matched.ranks):
            found.append(self.next("--path"))
        return found

    def below_table(self, table: Table, job: Job) -> list[str]:
        """What to ask after a table; nothing for most of them."""
        if table.name not in ("rank_collectives", "late_arrivals", "late_ranks") or not len(table):
            return []
        if table.name == "late_ranks":
            return [self.next("--table", "late_arrivals"), *self._repair(job)]
        more = [self.next("--table", "late_arrivals")] if table.name == "rank_collectives" else []
        return [*more, self.cut(table["collective"][0], table["key"][0])]

    def _repair(self, job: Job) -> list[str]:
        if (late := job.repairable) is None:
            return []
        return [self.next("--what-if", f"repair={called(job.matched.ranks, late)}")]


def called(ranks: Sequence[Ranked], place: int) -> str:
    """What to call a rank in a command: its number, or the name of its trace where several have the number."""
    from tracelens_graph.graph.trace_set import rank_number

    number = rank_number(ranks, place)
    is_alone = sum(rank_number(ranks, other) == number for other in range(len(ranks))) == 1
    return str(number) if is_alone else ranks[place].name
