"""Places that two traces of one model share: what one platform runs as one kernel, the other may run as three.

Kernels in layers are paired by their places. All others, which host code launches one by one, are paired in the order
of their launches, which is the program's and not the platform's. What only one side has between two pairs is one place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from tracelens_graph.analyses.alignment.sequence import NEVER, Pairs, aligned
from tracelens_graph.analyses.identification.families import Family, family_of
from tracelens_graph.analyses.identification.kernels import all_passes, place_of
from tracelens_graph.analyses.identification.layers import Place
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes

_ALONE, _OTHER_FUNCTION = 6, 1
"""Cost of leaving a kernel alone, and of a pair of one family whose functions differ."""

_PASS = "a pass"

_COMMON = {family.value for family in (Family.copy, Family.elementwise, Family.compiled, Family.other)}
"""Families that are everywhere: leaving such a kernel alone costs less, for that two of them are alike says little."""

Labels = Mapping[int, str]
"""Row of a GPU event -> its label."""


def common_labels(a: Core, b: Core) -> tuple[Labels, Labels]:
    """The labels of all GPU events of two traces, so that equal labels are equal places of the model."""
    sides = _Side(a), _Side(b)
    of_a, of_b = (_of_layers(core, _roles(place_of(all_passes(other)).values())) for core, other in ((a, b), (b, a)))
    beside_a, beside_b = _beside(*sides)
    return of_a | beside_a, of_b | beside_b


def _roles(places: Iterable[Place]) -> set[tuple[int, str, str]]:
    return {(place.layer, place.slot.block, place.slot.role) for place in places}


_OF_EXPERTS = re.compile(r"expert|^activation$|combine")
"""Roles that one platform may run as one kernel of all experts."""


def _of_layers(core: Core, of_other: set[tuple[int, str, str]]) -> dict[int, str]:
    """Labels of kernels in passes.

    Engines run the chosen experts as one op, in one kernel or many, so that these are one place. What else the other
    trace does differently is one place in each block of a layer.
    """
    found = {}
    for row, place in place_of(all_passes(core)).items():
        block, role = place.slot.block, place.slot.role
        known = (place.layer, block, role) in of_other
        if block == "moe" and (_OF_EXPERTS.search(role) or (role == "top-k" and not known)):
            role = "experts"
        elif not known:
            role = "other"
        found[row] = f"{place.label.rpartition(' / ')[0]} / {role}"
    return found


class _Side:
    """Of one trace the kernels that are in no pass, and its passes, in the order of their launches."""

    def __init__(self, core: Core) -> None:
        c = core.columns
        taken = np.zeros(len(c.kind), bool)
        for one in all_passes(core):
            taken[one.rows] = True
        rows = np.concatenate((core.gpu_rows[~taken[core.gpu_rows]], [one.rows[0] for one in all_passes(core)]))
        rows = rows.astype(np.int64)
        launch = nearest_above(c, rows, (Kind.RuntimeCall,))
        at = np.where(launch >= 0, c.start_ns[launch], c.start_ns[rows])
        self.rows = rows[np.lexsort((c.start_ns[rows], at))]
        names = [core.names[code] for code in c.name[self.rows].tolist()]
        is_pass = taken[self.rows].tolist()
        self.families = [_PASS if one else family_of(name).value for name, one in zip(names, is_pass, strict=True)]
        self.functions = [_function(name, family) for name, family in zip(names, self.families, strict=True)]


def _function(name: str, family: str) -> str:
    """What a kernel applies; a copy is a kernel on one platform and a transfer on another."""
    if family in (Family.copy, _PASS):
        return family
    parsed = parse_name(name)
    return (parsed.functor if parsed else None) or name


def _beside(a: _Side, b: _Side) -> tuple[dict[int, str], dict[int, str]]:
    """Labels of the kernels that are in no pass."""
    pairs = _paired(a, b)
    counts: Counter[str] = Counter()
    words = []
    for at, _ in pairs:
        counts[a.families[at]] += 1
        words.append(f"{a.families[at]} {counts[a.families[at]]}")
    first, second = ([pair[which] for pair in pairs] for which in (0, 1))
    return _in_words(a, dict(zip(first, words, strict=True))), _in_words(b, dict(zip(second, words, strict=True)))


def _paired(a: _Side, b: _Side) -> Pairs:
    codes: dict[str, int] = {}

    def coded(texts: Iterable[str]) -> Codes:
        return np.array([codes.setdefault(text, len(codes)) for text in texts], np.int64)

    family_a, family_b = coded(a.families), coded(b.families)
    function_a, function_b = coded(a.functions), coded(b.functions)

    def costs(i: int, j: int, k: int) -> np.ndarray:
        differs = np.where(function_a[i] == function_b[j:k], 0, _OTHER_FUNCTION)
        return np.where(family_a[i] == family_b[j:k], differs, NEVER)

    lose, gain = (np.array([_ALONE - 2 * (one in _COMMON) for one in side.families], np.int64) for side in (a, b))
    equal = function_a * len(codes) + family_a, function_b * len(codes) + family_b
    return aligned(lose, gain, costs, equal, (family_a, family_b))


def _in_words(side: _Side, paired: Mapping[int, str]) -> dict[int, str]:
    """Row -> label of kernels that are in no pass: their pair, or the pair after which they stand alone.

    One operation may be two kernels on one side: what stands beside a pair and is of its family belongs to it.
    """
    found, before = {}, "the beginning"
    for at, (row, family) in enumerate(zip(side.rows.tolist(), side.families, strict=True)):
        beside = [near for near in (at, at - 1, at + 1) if near in paired and side.families[near] == family]
        if beside and (beside[0] == at or family not in _COMMON):
            before = paired[beside[0]]
            label = f"beside the layers / {before}"
        else:
            label = f"beside the layers / after {before}, on one side only"
        if family != _PASS:
            found[row] = label
    return found
