"""Arguments, or results, of all nodes of an execution trace, held as columns instead of one object per node.

Shapes, types and strides repeat from node to node. Together they are the **form** of a side, and each form is held
once. What differs are the values: tensor ids, sizes, numbers. They stay JSON, end to end in one text; each text may be
damaged, and some are large.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, overload

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.utils.arrays import Rows

_PIECE = 1 << 19
"""Bytes of a list that are decoded at a time."""
_LIST_BEGIN = re.compile(rb"\s*+\[")
_BETWEEN_LISTS = re.compile(rb"\]\s*+,\s*+\[")
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_LIST: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[Any])


def decoded(texts: Sequence[bytes | memoryview | Raw], decoder: msgspec.json.Decoder[list[Any]] = _LIST) -> list[Any]:
    """What JSON texts hold; None for a text that is not JSON, or nothing that the decoder takes."""
    try:
        found = decoder.decode(b"[%b]" % b",".join(texts))
    except _FAULTS:
        found = []
    if len(found) == len(texts):
        return found
    return [None] if len(texts) == 1 else [decoded([text], decoder)[0] for text in texts]


def elements(text: bytes) -> Iterator[Any]:
    """The elements of a JSON list; nothing for anything else. A long list of lists is decoded in pieces."""
    opening = _LIST_BEGIN.match(text)
    begin = opening.end() if opening else 0
    while begin:
        cut = _BETWEEN_LISTS.search(text, begin + _PIECE)
        piece = decoded([b"[%b]" % text[begin : cut.start() + 1]])[0] if cut else None
        if cut is None or piece is None:  # the last piece, or the cut was inside of an element
            yield from json_list(b"[" + text[begin:])
            return
        yield from piece
        begin = cut.end() - 1


def json_list(text: bytes) -> list[Any]:
    """A list from its text; empty for anything else."""
    try:
        found = msgspec.json.decode(text) if text else []
    except _FAULTS:
        return []
    return found if isinstance(found, list) else []


def raw_list(text: bytes | memoryview) -> list[Raw]:
    """The texts of the elements of a list; empty for anything else."""
    try:
        return msgspec.json.decode(text, type=list[Raw]) if text else []
    except _FAULTS:
        return []


Form = tuple[bytes, bytes, bytes]
"""Shapes, types and strides as JSON texts."""

NO_FORM: Form = (b"", b"", b"")
_BLOCK = 1 << 18
"""Bytes of values that are in one group, if they are of several nodes."""


class Argument(NamedTuple):
    """One argument or result of an operator, as the observer wrote it.

    Attributes:
        value: a tensor as [tensor id, storage id, offset, elements, bytes per element, device]; a list of values for
            lists and tuples; any other value in place, `<None>` and the like for what it could not write.
        shape: sizes of a tensor; nested as the values are.
        type: such as `Tensor(float)`, `Int`, `GenericList[Tensor(float),Tensor(float)]`.
        strides: of a tensor, nested as the values are; None where the schema has none.
    """

    value: Any
    shape: Any
    type: str
    strides: Any = None


class Arguments(NamedTuple):
    """JSON texts of the arguments on one side of an operator; empty where there is none.

    Attributes:
        values, shapes, types, strides: lists of equal length, as `Argument` explains; strides from schema 1.1.1 on.
    """

    values: bytes = b""
    shapes: bytes = b""
    types: bytes = b""
    strides: bytes = b""

    def decoded(self) -> list[Argument]:
        """The arguments; where a list is shorter than the values, the rest is empty."""
        values, shapes, types, strides = (msgspec.json.decode(text) if text else [] for text in self)
        if not isinstance(values, list):
            return []

        def at(of: Any, place: int, absent: Any) -> Any:
            return of[place] if isinstance(of, list) and place < len(of) else absent

        return [
            Argument(value, at(shapes, i, []), str(at(types, i, "")), at(strides, i, None))
            for i, value in enumerate(values)
        ]


class Group(NamedTuple):
    """Some nodes with one form.

    Attributes:
        form: its code.
        rows: the nodes, ascending.
        texts: the values of each.
    """

    form: int
    rows: Rows
    texts: list[memoryview]


class Sides(Sequence[Arguments]):
    """One side of all nodes.

    Attributes:
        forms: the forms, by code.
        form: code of the form of each node.
    """

    def __init__(self, forms: list[Form], form: np.ndarray, text: np.ndarray, begin: np.ndarray, end: np.ndarray):
        """Take columns.

        Args:
            form: code of the form of each node.
            text: bytes that hold the values of all nodes.
            begin, end: where those of each node are.
        """
        self.forms, self.form = forms, form
        self._text, self._begin, self._end = text, begin, end

    @classmethod
    def of(cls, arguments: Sequence[Arguments]) -> Sides:
        """Those that were made one by one."""
        forms: dict[Form, int] = {}
        form = [forms.setdefault(tuple(map(bytes, one[1:])), len(forms)) for one in arguments]  # type: ignore[arg-type]
        end = np.cumsum([0, *(len(one.values) for one in arguments)])
        text = np.frombuffer(b"".join(one.values for one in arguments), np.uint8)
        return cls(list(forms), np.array(form, np.int32), text, end[:-1], end[1:])

    def __len__(self) -> int:
        return len(self.form)

    @overload
    def __getitem__(self, at: int) -> Arguments: ...
    @overload
    def __getitem__(self, at: slice) -> list[Arguments]: ...
    def __getitem__(self, at: int | slice) -> Arguments | list[Arguments]:
        if isinstance(at, slice):
            return [self[place] for place in range(len(self))[at]]
        return Arguments(self.values(at), *self.forms[self.form[at]])

    def values(self, row: int) -> bytes:
        """The values of a node, as JSON."""
        return self._text[self._begin[row] : self._end[row]].tobytes()

    def take(self, rows: Rows) -> Sides:
        """Those of some nodes."""
        return Sides(self.forms, self.form[rows], self._text, self._begin[rows], self._end[rows])

    def groups(self, rows: Rows) -> Iterator[Group]:
        """Some nodes, given ascending, form by form and in blocks; nodes without arguments are left out."""
        begin, end, form = self._begin[rows], self._end[rows], self.form[rows]
        has_form = np.array([one != NO_FORM for one in self.forms], bool)
        given = np.flatnonzero((end > begin) | has_form[form])
        given = given[np.argsort(form[given], kind="stable")]
        rows, begin, end, form = rows[given], begin[given], end[given], form[given]
        block = (np.cumsum(end - begin) - (end - begin)) // _BLOCK
        cuts = np.flatnonzero((np.diff(form) != 0) | (np.diff(block) != 0)) + 1
        begins, ends, memory = begin.tolist(), end.tolist(), self._text.data
        bounds = [0, *cuts.tolist(), len(rows)]
        for low, high in pairwise(bounds):
            if low < high:
                texts = [memory[a:b] for a, b in zip(begins[low:high], ends[low:high], strict=True)]
                yield Group(int(form[low]), rows[low:high], texts)
