"""Signatures as a table: what can be replayed, how, and why not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracelens_graph.analyses.shared.call_columns import argument_cells
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.replay.planned import Plans
from tracelens_graph.replay.signatures import charge_all, signatures
from tracelens_graph.replay.tables import REPLAY_SIGNATURES
from tracelens_graph.tables.table import Table


def replay_signatures(g: Core | Window) -> Table:
    """What calls can be replayed, one row per operation and argument set with GPU work, the most GPU time first.

    Args:
        g: the graph, or a window of it.
    """
    return listing(Plans(signatures(charge_all(window_of(g)))))


def listing(plans: Plans, files: Mapping[int, str] | None = None) -> Table:
    """What calls of a window can be replayed, one row per operation and argument set, in the order given.

    Args:
        plans: plans of the signatures.
        files: place of a signature -> name of the program that was written of it.
    """
    found = plans.signatures
    core, c = found.core, found.core.columns
    every = range(len(found))
    whole = int(c.dur_ns[found.window.gpu_rows].sum())
    gpu = [_gpu_below(core, row) for row in found.rows.tolist()]
    cells = argument_cells(core, c.argset[found.rows])
    columns: dict[str, Cells] = {
        "op": found.names,
        "input_dims": cells["Input Dims"],
        "input_types": cells["Input type"],
        "concrete_inputs": cells["Concrete Inputs"],
        "calls": found.calls,
        "time_us": found.charged_ns / 1e3,
        "percent": 100 * found.charged_ns / whole if whole else np.zeros(len(found)),
        "could_be_won_us": found.won_ns / 1e3,
        "percent_of_roof": 100 * (1 - found.won_ns / np.maximum(found.charged_ns, 1)),
        "median_us": found.median_ns / 1e3,
        "kernels": [[core.names[code] for code in c.name[rows].tolist()] for rows in gpu],
        "kernel": [core.names[c.name[rows[np.argmax(c.dur_ns[rows])]]] if len(rows) else "" for rows in gpu],
        "uid": c.uid[found.rows],
        "plan": [plans[place].state for place in every],
        "why": [plans[place].why for place in every],
        "remedy": [plans[place].remedy for place in every],
        "file": [(files or {}).get(place, "") for place in every],
    }
    return REPLAY_SIGNATURES.table(columns, found.window.titled("Operations to replay"))


def _gpu_below(core: Core, row: int) -> np.ndarray:
    """Rows of the GPU work below a call."""
    low, high = np.searchsorted(core.gpu_rows, (row, int(core.columns.last[row]) + 1))
    found: np.ndarray = core.gpu_rows[low:high]
    return found
