"""What a server's host does between two steps, by the functions of Python that it is in: schedule, sample, detokenise.

Within a step the states of `host_states` explain why the GPU waits. Between steps functions that are known to do
something say more than the call that the host was in as the GPU ran out of work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from tracelens_graph.analyses.idle.host_states import STATES, SYNCHRONIZATION, Calls, Clock, Timelines
from tracelens_graph.graph.arrays import fitting, is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.iterations import is_of_server, iterations_of
from tracelens_graph.graph.traversals import climb
from tracelens_graph.schema import PYTHON_KINDS
from tracelens_graph.utils.arrays import Codes, Mask, Rows

_LOOPS = re.compile(r"event_loop|run_engine_core|run_busy_loop|run_scheduler_process")

WORK: Mapping[str, re.Pattern[str]] = {
    "detokenise": re.compile(r"detoken", re.IGNORECASE),
    "sampling": re.compile(r"sampl|logits_processor|penal(?:ty|ties)", re.IGNORECASE),
    "prepare": re.compile(
        r": _?prepare_|: _?update_states|metadata(?:_builder)?|: _?build\b|: replay_prepare|input_batch", re.IGNORECASE
    ),
    "output": re.compile(r"process_batch_result|output_processor|update_from_output|bookkeep|stream_output"),
    "scheduler": re.compile(
        r"\bsched(?:ule|uler|uling)?\b|(?<!lr_)scheduler|: _?schedule|get_next_batch", re.IGNORECASE
    ),
}
"""Work of a server's host -> how functions of Python are called that do it; the innermost such function counts."""

STATES_WITH_WORK = STATES + len(WORK)
"""States of threads, then the kinds of work."""

_PACKAGES: Mapping[str, str] = {"vllm": "vLLM", "sglang": "SGLang", "atom": "ATOM", "xfuser": "xDiT"}
_PACKAGE = re.compile(rf"(?:^|/)({'|'.join(_PACKAGES)})/\S+\.py\(")
"""Packages of engines -> the engines, and how functions of Python of theirs are named."""


def engine_of(core: Core) -> str:
    """The engine whose files most functions of Python are of; empty if no function is of any."""
    return core.once(_engine)


def _engine(core: Core) -> str:
    functions = np.unique(core.columns.name[is_kind(core.columns.kind, PYTHON_KINDS)]).tolist()
    found = Counter(match[1] for code in functions if (match := _PACKAGE.search(core.names[code])))
    return _PACKAGES[found.most_common(1)[0][0]] if found else ""


def are_between_steps(core: Core, row: Rows, ended: Rows) -> Mask:
    """Which gaps lie between the iterations of a server: the GPU work around them is of two of these, or of none."""
    if not (is_of_server(core) or engine_of(core)) or not len(found := iterations_of(core)):
        return np.zeros(len(row), bool)
    of = found.of
    return (of[row] != of[ended]) | (of[row] < 0)


class HostWork:
    """The states of threads as they count between steps.

    Attributes:
        state: of every row of the graph; from `STATES` on those of WORK. A call that waits for the GPU waits,
            whatever function it is in.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        core, c = calls.core, calls.core.columns
        is_python = is_kind(c.kind, PYTHON_KINDS) & ~fitting(core.names, c.name, _LOOPS.search)
        work = np.full(len(c) + 1, -1, np.int64)
        for number, pattern in reversed(list(enumerate(WORK.values()))):
            work[:-1][is_python & fitting(core.names, c.name, pattern.search)] = number
        self.state: Codes = calls.state.copy()
        rows = calls.rows[calls.state[calls.rows] != SYNCHRONIZATION]
        found = work[climb(c.parent, rows, work >= 0)]
        self.state[rows[found >= 0]] = STATES + found[found >= 0]

    def timelines(self, clock: Clock) -> Timelines:
        """How long threads were in which state, or at which work, on a clock."""
        return Timelines(self._calls, clock, self.state)
