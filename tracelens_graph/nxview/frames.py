"""Nodes and edges of a graph as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.graph.core import Core
from tracelens_graph.schema import DERIVED, STORED
from tracelens_graph.stores.frames import PLACES, Frame, Texts, edge_columns, node_columns, place_columns


def nodes_frame(core: Core, add: Iterable[str] = ()) -> pd.DataFrame:
    """All event nodes, one row each in row order, indexed by uid.

    Columns are those of `schema.STORED` and `schema.DERIVED`, times in ns. Texts are categories, an argument set
    is four columns of JSON, `parent`, `last`, `owner`, `step` and `annotation` hold uids, and what was not
    recorded is NA. Definitions and units are in `attrs`.

    Args:
        core: the graph.
        add: further columns, by `stores.frames.PLACES`: `module` (and `module_name`), `step` (`step_number`),
            `launcher` (and `launcher_name`).

    Raises:
        AnalysisError: there are no such columns.
    """
    columns, definitions = node_columns(core), {prop.name: prop.meaning for prop in STORED + DERIVED}
    for place in [add] if isinstance(add, str) else add:
        found = place_columns(core, place)
        columns |= found
        definitions |= dict.fromkeys(found, PLACES[place])
    frame = _frame(columns).set_index("uid")
    frame.attrs["definitions"] = definitions
    frame.attrs["units"] = {prop.name: prop.unit for prop in STORED + DERIVED if prop.unit}
    return frame


def edges_frame(core: Core) -> pd.DataFrame:
    """All edges between event nodes: `source` and `target` as uids, `type` as a category."""
    return _frame(edge_columns(core))


def _frame(columns: Frame) -> pd.DataFrame:
    return pd.DataFrame({name: _series(values) for name, values in columns.items()})


def _series(values: np.ndarray | Texts) -> Any:
    if isinstance(values, Texts):
        return pd.Categorical.from_codes(values.codes, pd.Index(list(values.texts), dtype=object))
    if isinstance(values, np.ma.MaskedArray):
        return pd.arrays.IntegerArray(values.data.astype(np.int64), np.ma.getmaskarray(values))
    return values
