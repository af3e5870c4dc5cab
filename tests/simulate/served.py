"""What a trace of a simulated server, joined with captures, says of each replayed kernel, held against the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracelens_graph.graph.graph import Graph
from tracelens_graph.schema import Kind


def said(g: Graph, row: int) -> tuple[Any, ...] | None:
    """Op, shapes of its arguments, and modules around it, outermost first, of a GPU event; None for no owner."""
    c = g.columns
    op = int(c.owner[row])
    if op < 0:
        return None
    dims = json.loads(g.argsets[c.argset[op]][0]) if c.argset[op] >= 0 else None
    modules: list[str] = []
    above = op
    while (above := int(c.parent[above])) >= 0:
        if c.kind[above] == Kind.Module:
            modules.insert(0, g.names[c.name[above]])
    return g.names[c.name[op]], dims, modules


def outcomes(g: Graph, truth: dict[str, Any]) -> dict[str, list[int]]:
    """Uids of the replayed kernels by what became of them: right, wrong, or unjoined."""
    row_of = {int(uid): row for row, uid in enumerate(g.columns.uid)}
    found: dict[str, list[int]] = {"right": [], "wrong": [], "unjoined": []}
    for replay in truth["replays"]:
        nodes = truth["graphs"][replay["graph"]]["nodes"]
        for place, uid in enumerate(replay["kernels"]):
            if uid is None:
                continue
            what = said(g, row_of[uid])
            true = nodes["op"][place], nodes["dims"][place], nodes["modules"][place]
            found["unjoined" if what is None else "right" if what == true else "wrong"].append(uid)
    return found


def truth_in(folder: Path) -> dict[str, Any]:
    """The truth about rank 0 in a folder."""
    truth: dict[str, Any] = json.loads((folder / "rank0.truth.json").read_text())
    return truth
