"""Ops for parts of fused work: what the rules of `op_table.pseudo` find in a graph, put into it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.edited import wrapped
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.traversals import climb, in_no_other, outermost_above
from tracelens_graph.op_table.pseudo import PSEUDO_OPS, PseudoOp
from tracelens_graph.schema import Kind, OwnerRule
from tracelens_graph.utils.arrays import Rows


def with_pseudo_ops(core: Graph) -> Graph:
    """The graph with an op for each part of fused work that a rule names; the same where there is none.

    Args:
        core: a whole graph. Parts that have their op already get no other.
    """
    names = set(core.names)
    found = [
        (top, rule.name, donor)
        for rule in PSEUDO_OPS
        if not names.isdisjoint(rule.donors)
        for top, donor in (_kernels(core, rule) if rule.of_kernels else _calls(core, rule))
    ]
    if not found:
        return core
    found.sort()
    top, donor = (np.array(rows, np.int64) for rows in ([one[0] for one in found], [one[2] for one in found]))
    kept = np.flatnonzero(in_no_other(core.columns.last, top))
    return wrapped(core, top[kept], [found[i][1] for i in kept.tolist()], core.columns.argset[donor[kept]])


def _rows(core: Graph, names: tuple[str, ...]) -> Rows:
    """Rows of ops of some names."""
    c = core.columns
    codes = [code for code, name in enumerate(core.names) if name in names]
    return np.flatnonzero(np.isin(c.name, codes) & (c.kind == Kind.Op))


def _kernels(core: Graph, rule: PseudoOp) -> Iterator[tuple[int, int]]:
    """What an op is to stand above, and the op that gives its arguments, of a rule by GPU events.

    It is the launch, where nothing else was launched by it, so that the launch stays next to its work.
    """
    c, gpu = core.columns, core.gpu_rows
    gpu = gpu[fitting(core.names, c.name[gpu], rule.part.search) & (c.owner_rule[gpu] != OwnerRule.pseudo_op)]
    donor = outermost_above(c.last, _rows(core, rule.donors), gpu)
    gpu, donor = gpu[donor >= 0], donor[donor >= 0]
    order = np.lexsort((gpu, c.start_ns[gpu], donor))
    gpu, donor = gpu[order], donor[order]
    _, first, of, count = np.unique(donor, return_index=True, return_inverse=True, return_counts=True)
    place = np.arange(len(gpu)) - first[of]
    picked = {"all": place >= 0, "first": place == 0, "later": place > 0, "only": count[of] == 1}[rule.which]
    launch = c.parent[gpu]
    alone = (c.kind[launch] == Kind.RuntimeCall) & (c.last[launch] == launch + 1)
    top = np.where(alone, launch, gpu)
    yield from zip(top[picked].tolist(), donor[picked].tolist(), strict=True)


def _calls(core: Graph, rule: PseudoOp) -> Iterator[tuple[int, int]]:
    """The same of a rule by calls: those with GPU work, and the op in them or above them that gives the arguments."""
    c = core.columns
    donors = _rows(core, rule.donors)
    calls = np.flatnonzero(c.kind <= Kind.Op)
    rows, gpu = calls[fitting(core.names, c.name[calls], rule.part.search)], core.gpu_rows
    rows = rows[np.searchsorted(gpu, c.last[rows], "right") > np.searchsorted(gpu, rows)]
    rows = rows[in_no_other(c.last, rows)]
    at = np.searchsorted(donors, rows)
    inside = np.append(donors, len(c))[at]
    is_donor = np.zeros(len(c), bool)
    is_donor[donors] = True
    donor = np.where(inside <= c.last[rows], inside, climb(c.parent, c.parent[rows], is_donor))
    has_op = np.append(np.array([name == rule.name for name in core.names], bool)[c.name], False)[c.parent[rows]]
    kept = np.flatnonzero((donor >= 0) & ~has_op)
    for row, above in zip(rows[kept].tolist(), donor[kept].tolist(), strict=True):
        if rule.beside is None or rule.beside.search(_kernels_below(core, above)):
            yield row, above


def _kernels_below(core: Graph, row: int) -> str:
    """Names of the GPU events below a call, each behind a line break."""
    low, high = np.searchsorted(core.gpu_rows, (row, core.columns.last[row] + 1))
    return "".join(f"\n{core.names[code]}" for code in core.columns.name[core.gpu_rows[low:high]].tolist())
