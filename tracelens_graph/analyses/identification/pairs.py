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

_PASS = "a pass"

_COMMON = {family.value for family in (Family.copy, Family.elementwise, Family.compiled, Family.other)}
"""Families that are everywhere: leaving such a kernel alone costs less, for that two of them are alike says little."""


def common_labels(a: Core, b: Core) -> tuple[dict[int, str], dict[int, str]]:
    """For both traces, uid of a GPU event -> the label of its place, so that equal labels are equal places."""
    sides = [_Side(a), _Side(b)]
    fine = _shared(*[[place for one in side.passes for place in one.places] for side in sides])
    found = [
        {
            row: _label(place, fine)
            for one in side.passes
            for row, place in zip(one.rows.tolist(), one.places, strict=False)
        }
        for side in sides
    ]
    for rows, labels in zip(found, _beside(*sides), strict=True):
        rows |= labels
    return tuple(
        {int(core.columns.uid[row]): label for row, label in rows.items()}
        for core, rows in zip((a, b), found, strict=True)
    )


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
        self.families = [
            _PASS if is_pass else family_of(name).value for name, is_pass in zip(self.names, self.is_pass, strict=True)
        ]
        self.functions = [_function(name, family) for name, family in zip(self.names, self.families, strict=True)]


def _function(name: str, family: str) -> str:
    """What a kernel applies; a copy is a kernel on one platform and a transfer on another."""
    if family in (Family.copy, _PASS):
        return family
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
        [
            np.array([codes.setdefault(f"{what} {x}", len(codes)) for x in getattr(side, what)], np.int64)
            for side in (a, b)
        ]
        for what in ("functions", "families")
    )

    def costs(i: int, j: int, k: int) -> np.ndarray:
        same = families[0][i] == families[1][j:k]
        return np.where(same, np.where(functions[0][i] == functions[1][j:k], 0, _OTHER_FUNCTION), NEVER)

    alone = [np.array([_ALONE - 2 * (family in _COMMON) for family in side.families], np.int64) for side in (a, b)]
    equal = tuple(f * (len(codes) + 1) + g for f, g in zip(functions, families, strict=True))
    pairs = aligned(*alone, costs, equal, tuple(families))
    counts: Counter[str] = Counter()
    words = []
    for at, _ in pairs:
        counts[a.families[at]] += 1
        words.append(f"{a.families[at]} {counts[a.families[at]]}")
    first, second = ([pair[which] for pair in pairs] for which in (0, 1))
    return _in_words(a, dict(zip(first, words, strict=True))), _in_words(b, dict(zip(second, words, strict=True)))


def _in_words(side: _Side, paired: dict[int, str]) -> dict[int, str]:
    """Row -> label of kernels that no pass holds: its pair, or after which pair it stands alone.

    One operation may be two kernels on one side: what stands beside a pair and is of its family belongs to it.
    """
    found, before = {}, "the beginning"
    for at, (row, family) in enumerate(zip(side.rows.tolist(), side.families, strict=True)):
        beside = [near for near in (at, at - 1, at + 1) if near in paired and side.families[near] == family]
        if beside and (beside[0] == at or family not in _COMMON):
            before = paired[beside[0]]
            found[row] = f"beside the layers / {before}"
        else:
            found[row] = f"beside the layers / after {before}, on one side only"
    return {row: label for row, label, is_pass in zip(found, found.values(), side.is_pass, strict=True) if not is_pass}
