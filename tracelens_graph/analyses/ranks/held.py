"""What a rank took part in, as columns: a few dozen bytes for each collective, and what many of them share once.

That is how collectives leave the process that read a rank, and how the parts of ten thousand ranks are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, overload

import numpy as np

from tracelens_graph.graph.collectives import Collective
from tracelens_graph.utils.arrays import Codes, Ns, narrow

Entry = tuple[Collective, int, int]
"""A collective, and the first start and last end of its kernels that count, ns."""

NONE = -(2**63)
"""Stands for a number that is not recorded."""

_OWN: dict[str, Any] = {
    "key": "", "sequence": None, "index": 0, "rank": None, "rows": (), "uids": (), "start_ns": 0, "end_ns": 0,
}  # fmt: skip
"""Fields that differ from collective to collective; in a form they have these values, but for the key."""
_SHARED = tuple(field.name for field in fields(Collective) if field.name not in _OWN)


@dataclass(frozen=True, eq=False)
class Held(Sequence[Entry]):
    """Collectives of one rank, each with the first start and the last end of its kernels that count.

    Attributes:
        forms: what collectives share: all but place, rows and times. `key` is that without the number at its end.
        form: place of each collective in `forms`.
        place, sequence: index and sequence number as in `Collective`, `NONE` for none.
        by_index: whether the number at the end of the key is the index, and not the sequence number; for each form.
        rank: as in `Collective`, `NONE` for none; one number where it is that of all.
        start_ns, dur_ns: what counts of each.
        whole_ns: first start and last end of all its kernels, in two columns; without rows where these are the same.
        first: where the kernels of each begin in `rows`, and behind the last one their number.
        rows, uids: the kernels of all.
    """

    forms: Sequence[Collective]
    form: Codes
    place: np.ndarray
    sequence: np.ndarray
    by_index: Sequence[bool | None]
    rank: np.ndarray
    start_ns: Ns
    dur_ns: Codes
    whole_ns: np.ndarray
    first: np.ndarray
    rows: np.ndarray
    uids: np.ndarray

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Held:
        """The columns of some collectives."""
        given = list(entries)
        nodes = [one for one, _, _ in given]
        numbers: dict[tuple[Any, ...], int] = {}
        forms: list[Collective] = []
        by_index: list[bool | None] = []
        form = np.zeros(len(nodes), np.int64)
        for at, one in enumerate(nodes):
            stem, is_index = _stem(one)
            shared = tuple(getattr(one, name) for name in _SHARED)
            key = (stem, is_index, *shared)
            if key not in numbers:
                numbers[key] = len(forms)
                forms.append(Collective(**dict(zip(_SHARED, shared, strict=True)), **(_OWN | {"key": stem})))
                by_index.append(is_index)
            form[at] = numbers[key]

        def column(values: Iterable[int]) -> np.ndarray:
            return narrow(np.array(list(values), np.int64), 1)

        rank = np.array([NONE if one.rank is None else one.rank for one in nodes], np.int64)
        whole = np.array([(one.start_ns, one.end_ns) for one in nodes], np.int64).reshape(-1, 2)
        times = np.array([given_ns for _, *given_ns in given], np.int64).reshape(-1, 2)
        return cls(
            forms,
            narrow(form, 1),
            column(one.index for one in nodes),
            column(NONE if one.sequence is None else one.sequence for one in nodes),
            by_index,
            rank[:1] if len(rank) and (rank == rank[0]).all() else rank,
            times[:, 0].copy(),
            narrow(times[:, 1] - times[:, 0]),
            whole[:0] if np.array_equal(whole, times) else whole,
            narrow(np.cumsum([0, *(len(one.rows) for one in nodes)]), 1),
            column(row for one in nodes for row in one.rows),
            column(uid for one in nodes for uid in one.uids),
        )

    @property
    def end_ns(self) -> Ns:
        """End of what counts of each."""
        return self.start_ns + self.dur_ns

    def __len__(self) -> int:
        return len(self.form)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, at: int | slice) -> Entry | tuple[Entry, ...]:
        places = range(len(self))[at]
        if isinstance(places, range):
            return tuple(self[one] for one in places)
        start_ns = int(self.start_ns[places])
        return self.collective(places), start_ns, start_ns + int(self.dur_ns[places])

    def kernels(self, at: int) -> tuple[int, ...]:
        """Rows of the kernels of a collective."""
        return tuple(self.rows[slice(*self.first[at : at + 2])].tolist())

    def collective(self, at: int) -> Collective:
        """What the rank knows of a collective."""
        code = int(self.form[at])
        form, by_index = self.forms[code], self.by_index[code]
        index, sequence = int(self.place[at]), int(self.sequence[at])
        rank = int(self.rank[at if len(self.rank) > 1 else 0])
        start_ns = int(self.start_ns[at])
        end_ns = start_ns + int(self.dur_ns[at])
        if len(self.whole_ns):
            start_ns, end_ns = self.whole_ns[at].tolist()
        number = "" if by_index is None else index if by_index else sequence
        return Collective(**vars(form) | {
            "key": f"{form.key}{number}",
            "sequence": None if sequence == NONE else sequence,
            "index": index,
            "rank": None if rank == NONE else rank,
            "rows": self.kernels(at),
            "uids": tuple(self.uids[slice(*self.first[at : at + 2])].tolist()),
            "start_ns": start_ns,
            "end_ns": end_ns,
        })  # fmt: skip


def _stem(one: Collective) -> tuple[str, bool | None]:
    """The key of a collective without the number at its end, and whether that is the index; see `Held.by_index`."""
    if one.key.endswith(f"#{one.index}"):
        return one.key[: -len(str(one.index))], True
    if one.sequence is not None and one.key.endswith(str(one.sequence)):
        return one.key[: -len(str(one.sequence))], False
    return one.key, None


class Forms:
    """Forms that collectives of many ranks have, each once, by number.

    Attributes:
        forms: the forms.
    """

    def __init__(self) -> None:
        self.forms: list[Collective] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._ranks: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._known: dict[int, int] = {}

    def number(self, form: Collective) -> int:
        """The number of a form."""
        if id(form) not in self._known:  # one that was given before, and lives on here
            # Groups of thousands of ranks are compared once and not form by form.
            ranks = form.ranks if form.ranks is None else self._ranks.setdefault(form.ranks, form.ranks)
            key = (form.key, id(ranks), *(getattr(form, name) for name in _SHARED if name != "ranks"))
            number = self._numbers.setdefault(key, len(self.forms))
            if number == len(self.forms):
                self.forms.append(form if ranks is form.ranks else replace(form, ranks=ranks))
                self._known[id(self.forms[number])] = number
            return number
        return self._known[id(form)]

    def shared(self, held: Held) -> Held:
        """The same collectives, with the forms that other ranks have."""
        return replace(held, forms=[self.forms[self.number(form)] for form in held.forms])
