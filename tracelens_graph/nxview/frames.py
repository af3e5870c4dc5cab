"""Nodes and edges of a graph as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import edge_rows
from tracelens_graph.schema import DERIVED, EVENT_EDGES, STORED, Kind, OwnerRule

_ROWS = ("parent", "last", "owner", "step", "annotation")
"""Columns that point to rows; in a frame they hold uids."""

_ARGSET = ("input_dims", "input_types", "input_strides", "concrete_inputs")


def nodes_frame(core: Core) -> pd.DataFrame:
    """All event nodes, one row each in row order, indexed by uid.

    Columns are those of `schema.STORED` and `schema.DERIVED`, times in ns. Texts are categories, an argument set
    is four columns of JSON, `parent`, `last`, `owner`, `step` and `annotation` hold uids, and what was not
    recorded is NA.
    """
    c = core.columns
    columns: dict[str, Any] = {}
    for prop in STORED[1:]:
        values = getattr(c, prop.name)
        if prop.name in _ROWS:
            columns[prop.name] = _uids(c.uid, values)
        elif prop.name == "thread":
            for place, name in enumerate(("pid", "tid")):
                columns[name] = _texts(values, [str(thread[place]) for thread in core.threads])
        elif prop.name == "argset":
            for place, name in enumerate(_ARGSET):
                columns[name] = _texts(values, [argset[place] for argset in core.argsets], empty_is_absent=True)
        elif prop.code_of:
            tables = {"kind": [k.name for k in Kind], "owner_rule": [r.name for r in OwnerRule], "names": core.names}
            columns[prop.name] = _texts(values, tables[prop.code_of])
        else:
            columns[prop.name] = values if not prop.absent else _optional(values, values == prop.absent)
    columns["step"] = _uids(c.uid, core.step)
    columns["annotation"] = _uids(c.uid, core.annotation)
    columns["recompute"] = core.recompute
    columns["gpu_sum_ns"] = core.gpu_sum_ns
    columns["gpu_busy_ns"] = core.gpu_busy_ns(np.arange(len(c)))
    frame = pd.DataFrame(columns, index=pd.Index(c.uid, name="uid"))
    frame.attrs["definitions"] = {prop.name: prop.meaning for prop in STORED + DERIVED}
    frame.attrs["units"] = {prop.name: prop.unit for prop in STORED + DERIVED if prop.unit}
    return frame


def edges_frame(core: Core) -> pd.DataFrame:
    """All edges between event nodes: `source` and `target` as uids, `type` as a category."""
    uid = core.columns.uid
    types = [edge.name for edge in EVENT_EDGES]
    pairs = [edge_rows(core, name) for name in types]
    codes = np.repeat(np.arange(len(types), dtype=np.int8), [len(source) for source, _ in pairs])
    return pd.DataFrame(
        {
            "source": uid[np.concatenate([source for source, _ in pairs])],
            "target": uid[np.concatenate([target for _, target in pairs])],
            "type": pd.Categorical.from_codes(codes, pd.Index(types)),
        }
    )


def _texts(codes: np.ndarray, texts: Sequence[str], empty_is_absent: bool = False) -> pd.Categorical:
    """Codes into a list of texts as categories; equal texts become one."""
    categories = [text for text in dict.fromkeys(texts) if text or not empty_is_absent]
    place = {text: number for number, text in enumerate(categories)}
    table = np.array([*(place.get(text, -1) for text in texts), -1], np.int32)
    return pd.Categorical.from_codes(table[codes], pd.Index(categories, dtype=object))


def _uids(uid: np.ndarray, rows: np.ndarray) -> Any:
    absent = rows < 0
    return _optional(np.where(absent, 0, uid[rows]) if len(uid) else rows.astype(np.int64), absent)


def _optional(values: np.ndarray, absent: np.ndarray) -> Any:
    return pd.arrays.IntegerArray(values.astype(np.int64), absent)
