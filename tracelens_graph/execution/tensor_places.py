"""Where tensors stand among the arguments of a form, and what the form says of them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from msgspec import Raw

from tracelens_graph.execution.sides import Form, decoded, elements, json_list, raw_list
from tracelens_graph.utils.arrays import Numbering, Rows

_TENSOR = "Tensor("
_UNDEFINED = "Tensor(nullptr"
"""Type of a tensor that was not given: it has an id, but no storage, type or device."""

_LISTS = ("GenericList[", "Tuple[")
_MOST_NESTED = 32
"""Depth of lists in lists that is followed; the observer itself writes two levels."""

_TOKEN = re.compile(r"[\],]|\[|(?:[^\[\](),]++|\((?>(?:[^()]++|\([^()]*+\))*)\)|[()])++\[?")
"""In the type of a list: what ends or divides a list, a type, or what opens a list. Types have parentheses."""


class ListPlaces(NamedTuple):
    """Tensors in an argument that is a list.

    Attributes:
        position: of the argument.
        size: number of elements, those of lists in it counted one by one.
        kept: which of them are tensors, ascending; None for all.
        paths: where these stand in the nested lists; None if there are no lists in the list.
    """

    position: int
    size: int
    kept: np.ndarray | None
    paths: list[tuple[int, ...]] | None


class Places(NamedTuple):
    """Tensors among the arguments of a form, in their order.

    Attributes:
        steps: for each argument with tensors its position, or what is known of its elements.
        told: number of arguments whose type is given.
        position, element, dtype, shape, strides: columns as in `TensorUses`.
    """

    steps: list[int | ListPlaces]
    typed: int
    position: Rows
    element: np.ndarray
    dtype: np.ndarray
    shape: np.ndarray
    strides: np.ndarray


class _Columns(NamedTuple):
    """Columns of `Places` while they grow."""

    position: array[int]
    element: array[int]
    dtype: array[int]
    shape: array[int]
    strides: array[int]


class PlaceFinder:
    """Finds the tensors of forms.

    Attributes:
        dtypes, shapes, all_strides: numbers of what was met.
    """

    def __init__(self) -> None:
        self.dtypes, self.shapes, self.all_strides = Numbering(), Numbering(), Numbering({None: 0})
        self._codes: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, int]] = {}

    def places(self, form: Form) -> Places:
        """The tensors of a form."""
        shapes, types, strides = form
        typed, sizes, steps_between = json_list(types), raw_list(shapes), raw_list(strides)
        columns = _Columns(*(array("i") for _ in range(5)))
        steps: list[int | ListPlaces] = []
        for at, text in enumerate(typed):
            if not isinstance(text, str):
                continue
            sides = [of[at] if at < len(of) else Raw(b"null") for of in (sizes, steps_between)]
            if text.startswith(_TENSOR):
                if not text.startswith(_UNDEFINED):
                    steps.append(at)
                    columns.element.append(-1)
                    self._add(columns, self.dtypes[_dtype(text)], *(decoded([one])[0] for one in sides))
            elif text.startswith(_LISTS) and _TENSOR in text:
                steps.append(self._list(columns, at, text, *sides))
            columns.position.extend([at] * (len(columns.element) - len(columns.position)))
        return Places(steps, len(typed), *(np.frombuffer(column, np.int32) for column in columns))

    def _list(self, columns: _Columns, at: int, text: str, sizes: Raw, strides: Raw) -> ListPlaces:
        paths: list[tuple[int, ...]] = []
        count, first, is_nested = 0, len(columns.element), text.count("[") > 1
        size_at, stride_at = (_nested(one) if is_nested else _in_order(one) for one in (sizes, strides))
        kinds = _Kinds(self.dtypes)
        for path, one in elements_of_type(text):
            kind, size, stride = kinds[one], size_at(path), stride_at(path)
            if kind >= 0:
                columns.element.append(count)
                if is_nested:
                    paths.append(path)
                self._add(columns, kind, size, stride)
            count += 1
        kept = np.array(columns.element[first:], np.int32)
        return ListPlaces(at, count, kept if len(kept) < count else None, paths if is_nested else None)

    def _add(self, columns: _Columns, dtype: int, size: Any, stride: Any) -> None:
        """Add type, sizes and strides of a tensor."""
        try:
            shape, strides = self._codes[tuple(size), tuple(stride)]
        except (KeyError, TypeError):
            shape, strides = self._coded(_numbers(size) or (), _numbers(stride))
        columns.dtype.append(dtype)
        columns.shape.append(shape)
        columns.strides.append(strides)

    def _coded(self, size: tuple[int, ...], stride: tuple[int, ...] | None) -> tuple[int, int]:
        has_strides = stride is not None and len(stride) == len(size)
        found = self.shapes[size], self.all_strides[stride if has_strides else None]
        if stride is not None:
            self._codes[size, stride] = found
        return found


class _Kinds(dict[str, int]):
    """Types of elements -> code of the type of a tensor's elements; -1 for anything but a tensor that was given."""

    def __init__(self, dtypes: Numbering) -> None:
        self._dtypes = dtypes

    def __missing__(self, text: str) -> int:
        is_tensor = text.startswith(_TENSOR) and not text.startswith(_UNDEFINED)
        self[text] = found = self._dtypes[_dtype(text)] if is_tensor else -1
        return found


def _dtype(text: str) -> str:
    """`float` of `Tensor(float)`."""
    return text[len(_TENSOR) :].removesuffix(")")


def _nested(raw: Raw) -> Callable[[tuple[int, ...]], Any]:
    """What stands in a list of lists, by place."""
    value = decoded([raw])[0]
    return lambda path: value_at(value, path)


def _in_order(raw: Raw) -> Callable[[tuple[int, ...]], Any]:
    """What stands in a list without lists in it, by places that are asked for in order."""
    found = elements(bytes(raw))
    return lambda _: next(found, None)


def elements_of_type(text: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Types of the elements of `GenericList[...]` or `Tuple[...]`, of lists in it too, and where they stand."""
    places = [0]
    for match in _TOKEN.finditer(text, text.find("[") + 1):
        token = match.group()
        if token[-1] == "[":
            if len(places) > _MOST_NESTED:
                return
            places.append(0)
        elif token == ",":
            places[-1] += 1
        elif token == "]":
            places.pop()
            if not places:
                return
        else:
            yield tuple(places), token


def value_at(values: Any, path: tuple[int, ...]) -> Any:
    """What stands at a place in nested lists; None for nothing."""
    for i in path:
        if not isinstance(values, list) or i >= len(values):
            return None
        values = values[i]
    return values


def _numbers(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(one) is int for one in value):
        return tuple(value)
    return None
