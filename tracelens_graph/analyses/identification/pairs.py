"""Places that two traces of one model share: what one platform runs as one kernel, the other may run as three.

Kernels in layers are paired by their places. All others, which host code launches one by one, are paired in the order
of their launches, which is the program's and not the platform's. What only one side has between two pairs is one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.alignment.sequence import NEVER, aligned
from tracelens_graph.analyses.identification.families import Family, family_of
from tracelens_graph.analyses.identification.kernels import Pass, passes
from tracelens_graph.analyses.identification.layers import Place
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.graph.core import Core

_ALONE, _OTHER_FUNCTION = 6, 1
"""Cost of leaving a kernel alone, and of a pair of one family whose functions differ."""

_COMMON = {family.value for family in (Family.copy, Family.elementwise, Family.compiled, Family.other)}
"""Families that are everywhere: leaving such a kernel alone costs less, for that two of them are alike says little."""


def common_labels(a: Core, b: Core) -> tuple[dict[int, str], dict[int, str]]:
    """For both traces, uid of a GPU event -> the label of its place, so that equal labels are equal places."""
    sides = [_Side(a), _Side(b)]
    fine = _shared(*[[place for one in side.passes for place in one.places] for side in sides])
    found = [
        {row: _label(place, fine) for one in side.passes for row, place in zip(one.rows.tolist(), one.places, strict=False)}
        for side in sides
    ]
    for rows, labels in zip(found, _beside(*sides), strict=True):
        rows |= labels
    return tuple({int(core.columns.uid[row]): label for row, label in rows.items()} for core, rows in zip((a, b), found, strict=True))


class _Side:
    """One trace: its passes, and the items between which the others are aligned, in order of launches."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.passes: Sequence[Pass] = [one for one in passes(core) if one.places]
        c = core.columns
        taken = np.zeros(len(c.kind), bool)
        for one in self.passes:
            taken[one.rows] = True
        rows = core.gpu_rows[~taken[core.gpu_rows]]
        rows = np.concatenate((rows, np.array([one.rows[0] for one in self.passes], np.int64)))
        launch = np.where(c.parent[rows] >= 0, c.start_ns[c.parent[rows]], c.start_ns[rows])
        self.rows = rows[np.lexsort((c.start_ns[rows], launch))]
        self.is_pass = taken[self.rows]
        self.names = [core.names[i] for i in c.name[self.rows].tolist()]
        self.families = ["a pass" if is_pass else family_of(name).value for name, is_pass in zip(self.names, self.is_pass, strict=True)]
        self.functions = ["" if is_pass else _function(name) for name, is_pass in zip(self.names, self.is_pass, strict=True)]


def _function(name: str) -> str:
    parsed = parse_name(name)
    return (parsed.functor if parsed else None) or name


def _shared(a: Sequence[Place], b: Sequence[Place]) -> set[tuple[int, str, str]]:
    """Roles of layers that both traces have."""
    return {(p.layer, p.slot.block, p.slot.role) for p in a} & {(p.layer, p.slot.block, p.slot.role) for p in b}


def _label(place: Place, shared: set[tuple[int, str, str]]) -> str:
    if (place.layer, place.slot.block, place.slot.role) in shared:
        return place.label
    return f"{place.label.rpartition(' / ')[0]} / other"


def _beside(a: _Side, b: _Side) -> tuple[dict[int, str], dict[int, str]]:
    codes: dict[str, int] = {}
    functions, families = (
        [np.array([codes.setdefault(f"{what} {x}", len(codes)) for x in getattr(side, what)], np.int64) for side in (a, b)]
        for what in ("functions", "families")
    )

    def costs(i: int, j: int, k: int) -> np.ndarray:
        same = families[0][i] == families[1][j:k]
        return np.where(same, np.where(functions[0][i] == functions[1][j:k], 0, _OTHER_FUNCTION), NEVER)

    alone = [np.array([_ALONE - 2 * (family in _COMMON) for family in side.families], np.int64) for side in (a, b)]
    equal = tuple(f * (len(codes) + 1) + g for f, g in zip(functions, families, strict=True))
    pairs = aligned(*alone, costs, equal, tuple(families))
    labels: tuple[dict[int, str], dict[int, str]] = ({}, {})
    counts: Counter[str] = Counter()
    before, at = "the beginning", (0, 0)
    for pair in [*pairs, (len(a.rows), len(b.rows))]:
        for side, which, begin, end in zip((a, b), (0, 1), at, pair, strict=True):
            labels[which].update((int(row), f"beside the layers / after {before}, on one side only") for row, is_pass in zip(side.rows[begin:end], side.is_pass[begin:end], strict=True) if not is_pass)
        if pair[0] == len(a.rows):
            break
        family = a.families[pair[0]]
        counts[family] += 1
        before = f"{family} {counts[family]}"
        if not a.is_pass[pair[0]]:
            for side, which in zip((a, b), (0, 1), strict=True):
                labels[which][int(side.rows[pair[which]])] = f"beside the layers / {before}"
        at = (pair[0] + 1, pair[1] + 1)
    return labels
