"""When steps of a job begin and end on its devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.window import step_number


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of a job: their numbers, ascending, and from which to which moment each lasts on the device.

    A step lasts from the last GPU end of the steps before it to its own; the first begins with its mark on the host.
    """

    number: np.ndarray
    start_ns: np.ndarray
    end_ns: np.ndarray

    def of(self, number: int) -> tuple[int, int]:
        """Start and end of a step.

        Raises:
            AnalysisError: there is no such step, or it launched nothing on a GPU.
        """
        at = int(np.searchsorted(self.number, number))
        if at == len(self.number) or self.number[at] != number:
            there = ", ".join(map(str, self.number.tolist())) or "none"
            raise AnalysisError(f"no rank has GPU work of step {number}; steps with GPU work: {there}")
        return int(self.start_ns[at]), int(self.end_ns[at])


def steps_of(causes: Causes, time: np.ndarray | None = None) -> Steps:
    """The steps in which ranks launched GPU work.

    Args:
        causes: the points of the ranks.
        time: other moments of the points, by default those recorded.
    """
    moment = causes.time if time is None else time
    ends: dict[int, int] = {}
    begin: dict[int, int] = {}
    for ordinal, one in enumerate(causes.traces):
        core, c = one.core, one.core.columns
        rows = causes.ranks[ordinal].gpu_rows
        end = moment[causes.first_point[ordinal] + causes.ranks[ordinal].gpu_end]
        for mark, of in positions_by(core.gpu_step[rows]):
            number = step_number(core.names[c.name[mark]]) if mark >= 0 else None
            if number is not None:
                ends[number] = max(int(end[of].max()), ends.get(number, int(end[of].max())))
                start = causes.on_clock(ordinal, int(c.start_ns[mark]))
                begin[number] = min(start, begin.get(number, start))
    numbers = np.array(sorted(ends), np.int64)
    end_ns = np.maximum.accumulate(np.array([ends[one] for one in numbers.tolist()], np.int64))
    start_ns = np.concatenate(([min(begin[numbers[0]], end_ns[0])], end_ns[:-1])) if len(numbers) else end_ns
    return Steps(numbers, start_ns, end_ns)
