"""Rows with equal keys as groups, and the columns that many tables end with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracelens_graph.graph.arrays import distinct

Cells = np.ndarray | list[Any]


def group_by(*keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of the group of each row, and the first row of each group; groups are in the order of first rows."""
    if not len(keys[0]):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    code = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        values, part = distinct(key)
        _, code = distinct(code * len(values) + part)
    # What is written last stays, so writing backwards leaves the first row of each.
    first = np.empty(int(code.max()) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place[code], first[order]


def shares(values: np.ndarray) -> dict[str, Cells]:
    """Share of each value in the sum of all, in percent, and the running share."""
    total = values.sum()
    share = 100 * values / total if total else np.full(len(values), np.nan)
    return {"Percentage (%)": share, "Cumulative Percentage (%)": np.cumsum(share)}


def picked(values: Cells, places: np.ndarray) -> Cells:
    """Cells at some places."""
    return values[places] if isinstance(values, np.ndarray) else [values[i] for i in places.tolist()]


def cell_order(most: np.ndarray, *then: Cells) -> np.ndarray:
    """Places of rows by a value, the greatest first; equal ones by further cells, absent ones last."""
    plain = [cells.tolist() if isinstance(cells, np.ndarray) else cells for cells in then]
    keys = ([(cell is None, "" if cell is None else cell) for cell in row] for row in zip(*plain, strict=True))
    value: np.ndarray = np.asarray(most)
    order = sorted(enumerate(keys), key=lambda row: (-value[row[0]], row[1]))
    return np.array([place for place, _ in order], np.int64)


def text_codes(texts: Sequence[Any]) -> np.ndarray:
    """A number for each value, equal for equal values."""
    codes: dict[Any, int] = {}
    return np.array([codes.setdefault(text, len(codes)) for text in texts], np.int64)
