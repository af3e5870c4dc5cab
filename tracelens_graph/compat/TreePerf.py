"""TraceLens's `TreePerf`: the analyzers of a tree and of GPU events."""  # noqa: N999 (the name users know)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.analyses.timeline.timeline import ROW_MEANING, times_of
from tracelens_graph.compat.event import TraceEvent
from tracelens_graph.compat.tree_perf import TreePerfAnalyzer
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import gpu_rows
from tracelens_graph.loading.one import load_core
from tracelens_graph.utils.arrays import Rows


class GPUEventAnalyser:
    """How long some GPU events computed, communicated and copied, overlaps counted once.

    Args:
        events: events of one tree, or entries of a file's event list; those that are not GPU events are left out.

    Raises:
        AnalysisError: the events are of several trees.
    """

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self.events = list(events)
        self._core, self._rows = _gpu_rows(self.events)

    def compute_metrics(self, micro_idle_thresh_us: float | None = None) -> dict[str, float]:
        """Times in us, by the names of the rows of the GPU timeline (`tracelens_graph.gpu_timeline`); 0 without events.

        Args:
            micro_idle_thresh_us: split idle time into gaps below this length and the others.
        """
        times = times_of(self._core, self._rows, micro_idle_thresh_us) or dict.fromkeys(ROW_MEANING, 0)
        return {name: time / 1000 for name, time in times.items()}

    def get_breakdown_df(self, micro_idle_thresh_us: float | None = None) -> pd.DataFrame:
        """The times in ms and as shares of the total time: columns type, `time ms` and percent."""
        times = self.compute_metrics(micro_idle_thresh_us)
        milliseconds = np.array(list(times.values())) / 1000
        share = 100 * milliseconds / (times["total_time"] / 1000 or np.nan)
        return pd.DataFrame({"type": list(times), "time ms": milliseconds, "percent": share})


def _gpu_rows(events: list[Mapping[str, Any]]) -> tuple[Core, Rows]:
    cores: dict[int, Core] = {
        id(event.node.graph): event.node.graph for event in events if isinstance(event, TraceEvent)
    }
    if not cores:
        loaded = load_core({"traceEvents": events})
        return loaded, loaded.gpu_rows
    if len(cores) > 1 or not all(isinstance(event, TraceEvent) for event in events):
        raise AnalysisError("the events are of several trees")
    (core,) = cores.values()
    rows = np.unique([event.row for event in events if isinstance(event, TraceEvent)])
    return core, np.intersect1d(rows, gpu_rows(core.columns))


__all__ = ["GPUEventAnalyser", "TreePerfAnalyzer"]
