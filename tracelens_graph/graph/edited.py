"""A graph with other names or other arguments: what an extension may change before a report is made.

A graph is never changed; these return a new one that shares everything else with the old one. Nodes, their uids, times
and links stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.graph.arguments import ARGUMENTS
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.utils.suggest import hint


def renamed(core: Core, names: Mapping[int, str]) -> Graph:
    """The graph with other names for some nodes.

    Args:
        core: the graph.
        names: uid -> name.

    Raises:
        NodeNotFoundError: there is no node of a uid.
    """
    every = list(core.names)
    codes = {name: code for code, name in enumerate(every)}
    column = core.columns.name.astype(np.int64)
    for row, name in zip(_rows(core, names), names.values(), strict=True):
        if name not in codes:
            codes[name] = len(every)
            every.append(name)
        column[row] = codes[name]
    return changed(core, columns=_with(core, name=column), names=every)


def with_arguments(core: Core, arguments: Mapping[int, Mapping[str, Sequence[Any]]]) -> Graph:
    """The graph with other recorded arguments for some ops, such as shapes that the profiler does not know.

    Args:
        core: the graph.
        arguments: uid -> the parts that change, by their names in traces: `Input Dims`, `Input type`,
            `Input Strides`, `Concrete Inputs`, each a list with an entry per argument.

    Raises:
        NodeNotFoundError: there is no node of a uid.
        ValueError: a part has another name.
    """
    argsets, instructions = list(core.argsets), list(core.instructions)
    codes = {(*argset, *instructions[code : code + 1]): code for code, argset in enumerate(argsets)}
    column = core.columns.argset.astype(np.int64)
    for row, parts in zip(_rows(core, arguments), arguments.values(), strict=True):
        if unknown := sorted(parts.keys() - set(ARGUMENTS)):
            raise ValueError(f"{unknown[0]!r} is no part of arguments; {hint(unknown[0], ARGUMENTS)}")
        code = int(column[row])
        old = argsets[code] if code >= 0 else ("",) * 4
        texts = [json.dumps(list(parts[key])) if key in parts else old[i] for i, key in enumerate(ARGUMENTS)]
        own = [instructions[code] if code >= 0 else ""] if core.instructions else []
        if (*texts, *own) not in codes:
            codes[*texts, *own] = len(argsets)
            argsets.append((texts[0], texts[1], texts[2], texts[3]))
            instructions += own
        column[row] = codes[*texts, *own]
    return changed(core, columns=_with(core, argset=column), argsets=argsets, instructions=instructions)


def _with(core: Core, **columns: np.ndarray) -> Columns:
    return Columns({**dict(core.columns), **columns})


def _rows(core: Core, uids: Mapping[int, Any]) -> list[int]:
    rows = core.rows_of(uids)
    for uid in np.fromiter(uids, np.int64, len(uids))[rows < 0].tolist():
        core.row(uid)  # says what is wrong with it
    found: list[int] = rows.tolist()
    return found
