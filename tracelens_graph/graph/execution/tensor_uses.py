"""Every place where a tensor is an argument or a result of a node of an execution trace, as columns.

Arguments are JSON texts. Types, shapes and strides repeat from node to node, so each distinct combination is read once;
it tells where the tensors stand among the values, which are all that is decoded per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tracelens_graph.garbage import garbage_collection_paused
from tracelens_graph.graph.execution.trace import Arguments, ExecutionTrace

_TENSOR = "Tensor("
_UNDEFINED = "Tensor(nullptr"
"""Type of a tensor that was not given: it has an id, but no storage, type or device."""

_LISTS = ("GenericList[", "Tuple[")
_MOST_NESTED = 32
"""Depth of lists in lists that is followed; the observer itself writes two levels."""

_WHOLE = list[tuple[int, int, int, int, int, str]]
"""Tensors as the observer writes them: id, storage id, offset, elements, bytes per element, device."""


@dataclass(eq=False)
class TensorUses:
    """Uses of tensors in columns, by node, arguments before results, in the order of the arguments.

    Attributes:
        node: row of the node in the execution trace.
        is_output: whether the tensor is a result.
        position: which argument or result it is, or is part of.
        element: its place in that list, counted through nested lists; -1 where the argument is the tensor.
        tensor, storage: ids as recorded; a storage id of 0 stands for none.
        offset: of the first element in the storage, in elements.
        elements: how many there are.
        itemsize: bytes per element.
        device, dtype, shape, strides: codes into the lists of the same names.
        devices: such as `cuda:0`.
        dtypes: as recorded, such as `float` and `c10::BFloat16`.
        shapes: sizes.
        all_strides: strides, in elements; the first is None: not recorded.
        malformed: places where a tensor was announced and something else stood; they are left out.
    """

    node: np.ndarray
    is_output: np.ndarray
    position: np.ndarray
    element: np.ndarray
    tensor: np.ndarray
    storage: np.ndarray
    offset: np.ndarray
    elements: np.ndarray
    itemsize: np.ndarray
    device: np.ndarray
    dtype: np.ndarray
    shape: np.ndarray
    strides: np.ndarray
    devices: list[str]
    dtypes: list[str]
    shapes: list[tuple[int, ...]]
    all_strides: list[tuple[int, ...] | None]
    malformed: int

    def __len__(self) -> int:
        return len(self.node)


class _Place(NamedTuple):
    """Where a tensor stands among the values, and what is told beside them."""

    path: tuple[int, ...]
    element: int
    dtype: int
    shape: int
    strides: int


class _Plan(NamedTuple):
    """Tensors among the values that go with one combination of types, shapes and strides.

    Attributes:
        whole: arguments that are tensors.
        parts: tensors in lists.
        told: number of arguments whose type is told.
    """

    whole: list[_Place]
    parts: list[_Place]
    told: int


class _Codes(dict[Any, int]):
    """Numbers of values, in the order in which they are first met."""

    def __missing__(self, key: Any) -> int:
        self[key] = found = len(self)
        return found


class _Reader:
    def __init__(self) -> None:
        self.dtypes, self.shapes, self.all_strides = _Codes(), _Codes(), _Codes({None: 0})
        self.plans: dict[tuple[bytes, bytes, bytes], _Plan] = {}
        self.malformed = 0
        self.values: list[Any] = []
        self.places: list[_Place] = []
        self.nodes: list[int] = []
        self.outputs: list[bool] = []

    def read(self, node: int, arguments: Arguments, is_output: bool) -> None:
        """Take in one side of a node."""
        key = bytes(arguments.types), bytes(arguments.shapes), bytes(arguments.strides)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self._plan(*key)
        if plan.told and not (plan.whole or plan.parts):
            return
        values = _json(arguments.values)
        before = len(self.values)
        for place in plan.whole:
            at = place.path[0]
            if at < len(values):
                self.values.append(values[at])
                self.places.append(place)
            else:
                self.malformed += 1
        for place in plan.parts:
            value = _at(values, place.path)
            if value is None:
                self.malformed += 1
            else:
                self.values.append(value)
                self.places.append(place)
        for at in range(plan.told, len(values)):  # types may be missing: the form tells
            for path, element, value in _by_form(values[at], (at,)):
                self.values.append(value)
                self.places.append(_Place(path, element, self.dtypes[""], self.shapes[()], 0))
        count = len(self.values) - before
        self.nodes += [node] * count
        self.outputs += [is_output] * count

    def _plan(self, types: bytes, shapes: bytes, strides: bytes) -> _Plan:
        told, sizes, steps = _json(types), _json(shapes), _json(strides)
        whole: list[_Place] = []
        parts: list[_Place] = []
        for at, text in enumerate(told):
            if not isinstance(text, str):
                continue
            if text.startswith(_TENSOR):
                if not text.startswith(_UNDEFINED):
                    whole.append(self._place((at,), -1, text, sizes, steps))
            elif text.startswith(_LISTS) and _TENSOR in text:
                parts += [
                    self._place(path, path[-1], one, sizes, steps)
                    for path, one in _inner_types(text, (at,))
                    if not one.startswith(_UNDEFINED)
                ]
        return _Plan(whole, parts, len(told))

    def _place(self, path: tuple[int, ...], element: int, text: str, sizes: list[Any], steps: list[Any]) -> _Place:
        shape, strides = _numbers(_at(sizes, path)), _numbers(_at(steps, path))
        dtype = text[len(_TENSOR) :].removesuffix(")")
        has_strides = strides is not None and len(strides) == len(shape or ())
        return _Place(
            path,
            element,
            self.dtypes[dtype],
            self.shapes[shape or ()],
            self.all_strides[strides if has_strides else None],
        )


@garbage_collection_paused()
def tensor_uses(execution: ExecutionTrace, nodes: Iterable[int] | None = None) -> TensorUses:
    """Every use of a tensor in an execution trace, or by some rows of it; tensors that were not given are no uses."""
    reader = _Reader()
    for node in range(len(execution)) if nodes is None else nodes:
        reader.read(node, execution.inputs[node], False)
        reader.read(node, execution.outputs[node], True)
    values, numbers, kept = _sound(reader.values)
    places, rows, is_output = reader.places, np.array(reader.nodes, np.int64), np.array(reader.outputs, bool)
    if kept is not None:
        places, rows, is_output = [places[i] for i in kept], rows[kept], is_output[kept]
    devices = _Codes()
    device = [devices[one[5]] for one in values]
    coded = np.array([place[1:] for place in places], np.int64).reshape(-1, 4)
    return TensorUses(
        node=rows,
        is_output=is_output,
        position=np.array([place.path[0] for place in places], np.int64),
        element=coded[:, 0],
        tensor=numbers[:, 0],
        storage=numbers[:, 1],
        offset=numbers[:, 2],
        elements=numbers[:, 3],
        itemsize=numbers[:, 4],
        device=np.array(device, np.int32),
        dtype=coded[:, 1].astype(np.int32),
        shape=coded[:, 2].astype(np.int32),
        strides=coded[:, 3].astype(np.int32),
        devices=list(devices),
        dtypes=list(reader.dtypes),
        shapes=list(reader.shapes),
        all_strides=list(reader.all_strides),
        malformed=reader.malformed + len(reader.values) - len(values),
    )


def _sound(values: list[Any]) -> tuple[list[Any], np.ndarray, list[int] | None]:
    """The values that are tensors, their numbers, and which they are; None for all of them."""
    kept = None
    try:
        msgspec.convert(values, _WHOLE)
        numbers = _table(values)
    except (msgspec.ValidationError, OverflowError):
        kept = [i for i, value in enumerate(values) if _is_tensor(value)]
        values = [values[i] for i in kept]
        numbers = _table(values)
    return values, numbers, kept


def _table(values: list[Any]) -> np.ndarray:
    """The numbers of tensors, a row each."""
    return np.array([one[:5] for one in values], np.int64).reshape(-1, 5)


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 6
        and all(type(one) is int and -(2**63) <= one < 2**63 for one in value[:5])
        and isinstance(value[5], str)
    )


def _by_form(value: Any, path: tuple[int, ...], element: int = -1) -> Iterator[tuple[tuple[int, ...], int, Any]]:
    """Tensors in a value of unknown type; those that were not given have no device."""
    if _is_tensor(value):
        if value[5]:
            yield path, element, value
    elif isinstance(value, list) and len(path) < _MOST_NESTED:
        for i, one in enumerate(value):
            yield from _by_form(one, (*path, i), i)


def _json(text: bytes) -> list[Any]:
    """A list from its text; empty for anything else."""
    try:
        found = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _at(values: Any, path: tuple[int, ...]) -> Any:
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


def _inner_types(text: str, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Types of the tensors in `GenericList[...]` or `Tuple[...]`, and the places of the tensors in the values."""
    places, begin = [*path, 0], text.index("[") + 1
    closing = {"[": "]", "(": ")"}
    open_parentheses = 0
    for at in range(begin, len(text)):
        sign = text[at]
        if sign == "(":
            open_parentheses += 1
        elif sign == ")":
            open_parentheses -= 1
        elif open_parentheses:
            continue
        elif sign == closing["["] or sign == ",":
            part = text[begin:at]
            if part.startswith(_TENSOR):
                yield tuple(places), part
            begin = at + 1
            if sign == ",":
                places[-1] += 1
            else:
                places.pop()
                if len(places) <= len(path):
                    return
        elif sign == "[":
            if len(places) > _MOST_NESTED:
                return
            places.append(0)
            begin = at + 1


def describe(shape: tuple[int, ...], dtype: str) -> str:
    """A tensor's type and sizes for people: `float32[16384,4096]`."""
    return f"{SHORT_DTYPES.get(dtype, dtype)}[{','.join(map(str, shape))}]"


SHORT_DTYPES: Mapping[str, str] = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "long int": "int64",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
"""Types of elements as the observer writes them -> as PyTorch's programs write them."""
