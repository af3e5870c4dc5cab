"""GraphML, written as it goes: nodes with the attributes that networkx shows, edges with their type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, BinaryIO
from xml.sax.saxutils import escape

import numpy as np

from tracelens_graph.graph.arguments import ARGSET_PARTS, INSTRUCTION
from tracelens_graph.graph.core import Core
from tracelens_graph.output.markers import COMMENT
from tracelens_graph.schema import FLAG_MEANING, Flag
from tracelens_graph.stores.frames import Frame, Texts, edge_columns, recorded_columns

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ROWS_AT_ONCE = 8192


def write_graphml(core: Core, file: BinaryIO) -> int:
    """Write all event nodes and edges.

    A node's id is its uid. Absent values are left out, lists are JSON text. Each edge has its type twice: as
    `key`, which networkx takes for the key of the edge, and as `label`, which graph viewers show.

    Returns:
        How many characters that XML cannot hold were replaced by U+FFFD.
    """
    nodes, edges = _attributes(core), edge_columns(core)
    ends = [edges["source"], edges["target"]]
    types: Frame = {"key": edges["type"], "label": edges["type"]}
    numbers = [
        name for place, name in enumerate(("pid", "tid")) if all(map(_is_long, (t[place] for t in core.threads)))
    ]
    file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n' + COMMENT.encode())
    file.write(b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
    file.write("".join([*_keys("node", nodes, numbers), *_keys("edge", types)]).encode())
    file.write(b'<graph edgedefault="directed">\n')
    replaced = _elements(file, '<node id="%d">', [core.columns.uid], nodes, "</node>\n")
    replaced += _elements(file, '<edge source="%d" target="%d">', ends, types, "</edge>\n")
    file.write(b"</graph>\n</graphml>\n")
    return replaced


def _attributes(core: Core) -> Frame:
    """What `Node.attributes()` gives of every node, under the same names."""
    names = {**ARGSET_PARTS, INSTRUCTION.lower(): INSTRUCTION}
    columns = {names.get(name, name): column for name, column in recorded_columns(core).items()}
    flags, rule = core.columns.flags.astype(np.int32), core.columns.owner_rule.astype(np.int32)
    words = [[FLAG_MEANING[flag] for flag in Flag if bits & flag] for bits in range(flags.max(initial=0) + 1)]
    columns["flags"] = Texts(np.where(flags, flags, -1), [json.dumps(found) for found in words])
    rules = columns["owner_rule"]
    assert isinstance(rules, Texts)
    columns["owner_rule"] = Texts(np.where(rule, rules.codes, -1), rules.texts)
    return columns


def _keys(of: str, columns: Frame, numbers: Sequence[str] = ()) -> Iterator[str]:
    for name, column in columns.items():
        kind = "string" if isinstance(column, Texts) and name not in numbers else "long"
        yield f'<key id="{_id(name)}" for="{of}" attr.name="{name}" attr.type="{kind}"/>\n'


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _id(name: str) -> str:
    return name.replace(" ", "_")


def _elements(file: BinaryIO, opening: str, ids: list[np.ndarray | Texts], columns: Frame, closing: str) -> int:
    """One element per row, a data element in it per value; the number of replaced characters."""
    replaced = 0
    for name, column in columns.items():
        if isinstance(column, Texts):
            legal, places = column.without(_NOT_XML)
            columns[name] = Texts(legal.codes, [escape(text, {"\r": "&#13;"}) for text in legal.texts])
            replaced += places
    for begin in range(0, len(ids[0]), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        parts = [[opening % one for one in zip(*(values[rows].tolist() for values in ids), strict=True)]]
        for name, column in columns.items():
            before = f'<data key="{_id(name)}">'
            values = column[rows].tolist()
            parts.append(["" if value is None else f"{before}{value}</data>" for value in values])
        file.write("".join(map("".join, zip(*parts, repeat(closing), strict=False))).encode())
    return replaced
