"""Arguments that kernels of collectives carry, under the names and in the cells of TraceLens's tables."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.gpu_class import COMMUNICATION, gpu_classes
from tracelens_graph.graph.collectives import element_bytes
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind

TEXTS = {"Process Group Name": "group", "Collective name": "kind", "dtype": "dtype"}
NUMBERS = {"Group size": "group_size", "In msg nelems": "in_elements", "Out msg nelems": "out_elements"}
LISTS = {"Process Group Ranks": "ranks", "In split size": "in_split", "Out split size": "out_split"}
"""Column -> argument of the kernel, by what its cells hold."""

KEYS = (
    "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype", "In msg nelems",
    "Out msg nelems", "In split size", "Out split size",
)  # fmt: skip
"""The columns, in the order of TraceLens's tables."""

FIELDS = tuple((TEXTS | NUMBERS | LISTS)[key] for key in KEYS)
"""The argument behind each of them."""


def communication_kernels(w: Window) -> tuple[np.ndarray, np.ndarray]:
    """Kernels that communicate, and where their arguments stand.

    A kernel communicates if it is named so or has collective arguments. Its own arguments count, and where it carries
    none those of the op that it is charged to.

    Returns:
        Rows of the kernels, ascending, and for each the row of the event with its arguments; -1 for none.
    """
    core, c = w.core, w.core.columns
    kernels = w.rows_of_kind(Kind.Kernel)
    named = gpu_classes(core, kernels) == COMMUNICATION
    recorded = core.rows_of(core.collective_args)
    recorded = recorded[recorded >= 0]
    found = kernels[named | np.isin(kernels, recorded)]
    source = np.where(np.isin(found, recorded), found, c.owner[found])
    return found, np.where(np.isin(source, recorded), source, -1)


def argument_cell(column: str, value: Any) -> Any:
    """An argument as its column has it; what cannot be read so stays text."""
    if value is None:
        return None
    try:
        if column in NUMBERS and isinstance(value, int | str):
            return int(value)
        if column in LISTS:
            found = json.loads(value) if isinstance(value, str) else value
            if isinstance(found, list) and all(isinstance(number, int) for number in found):
                return found
    except (ValueError, RecursionError):
        pass
    return str(value)


def megabytes(elements: Any, dtype: str | None) -> float:
    """Size of a message in units of 2**20 bytes, NaN where number or type of the elements is not known."""
    size = element_bytes(dtype)
    readable = isinstance(elements, int) and abs(elements) < 2**63
    return elements * size / 2**20 if size and readable else np.nan
