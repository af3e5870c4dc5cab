"""Whether most events were left out of a trace's file."""

from __future__ import annotations

import re

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.shared.gpu_work import calls_named
from tracelens_graph.graph.traversals import launches_of
from tracelens_graph.graph.window import Window

LAUNCH = re.compile(r"^(?:cuda|hip|cu)\w*Launch")


def is_thinned(w: Window) -> bool:
    """Whether most events were left out of the file: few numbers of the window's launches are there."""
    c, launches = w.core.columns, calls_named(w, LAUNCH.search)
    given = c.correlation[launches]
    given = given[given > 0]
    if len(given) < limits.THINNED_CALLS:
        return False
    present = 100 * len(np.unique(given)) / (int(given.max()) - int(given.min()) + 1)
    return present < limits.THINNED_PERCENT and bool(np.isin(launches, launches_of(c, w.core.gpu_rows)).all())
