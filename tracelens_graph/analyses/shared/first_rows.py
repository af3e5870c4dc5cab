"""The first rows of a table whose question has a parameter `top`, and a note on the others."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from tracelens_graph.errors import AnalysisError

_Rows = TypeVar("_Rows", np.ndarray, list[Any])


def first_rows(rows: _Rows, top: int) -> tuple[_Rows, list[str]]:
    """The first rows, and, where that is not all, a note that says how many there are.

    Args:
        rows: what there is, in order.
        top: how many of them; 0 for all.

    Raises:
        AnalysisError: `top` is negative.
    """
    if top < 0:
        raise AnalysisError(f"top={top}: a number of rows is wanted, or 0 for all")
    if not top or len(rows) <= top:
        return rows, []
    return rows[:top], [f"the first {top:,} of {len(rows):,} rows (top 0 shows all)"]
