"""Every place where a tensor is an argument or a result of a node of an execution trace, as columns.

Arguments are JSON texts. Types, shapes and strides repeat from node to node, so each distinct combination is read once
(`tensor_places`). Values are decoded for all nodes of one combination together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Raw

from tracelens_graph.execution.sides import Form, Sides, decoded, elements, raw_list
from tracelens_graph.execution.tensor_places import ListPlaces, PlaceFinder, Places, value_at
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.utils.arrays import Mask, Numbering, Rows
from tracelens_graph.utils.gc_pause import garbage_collection_paused

_MOST_NESTED = 32
"""Depth of lists in lists that is followed where no type is known."""

_LARGE = 1 << 20
"""Bytes of values of one node from which on they are decoded in pieces."""

_MOST_PENDING = 1 << 14
"""Tensors that are held as Python objects."""

_NO_TENSOR = [0, 0, 0, 0, 0, ""]

_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_WHOLE = list[tuple[_Int64, _Int64, _Int64, _Int64, _Int64, str]]
"""Tensors as the observer writes them: id, storage id, offset, elements, bytes per element, device."""


@dataclass(eq=False)
class TensorUses:
    """Uses of tensors in columns, by node, arguments before results, in the order of the arguments.

    Attributes:
        node: row of the node in the execution trace.
        is_output: whether the tensor is a result.
        position: which argument or result it is, or is part of.
        element: its place in that list, elements of lists in it counted one by one; -1 where the argument is
            the tensor.
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

    node: Rows
    is_output: Mask
    position: Rows
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


class _Reader:
    """Collects the tensors of sides, form by form.

    A side that has values without a type may hold further tensors there; these are kept apart until the end.
    """

    def __init__(self) -> None:
        self.finder = PlaceFinder()
        self.devices = Numbering()
        self.codes: dict[Form, int] = {}
        self.places: list[Places] = []
        self.sides: list[tuple[np.ndarray, bool, int]] = []
        self.untyped: list[tuple[int, bool, int, int, Any]] = []
        self.pending: list[Any] = []
        self.numbers: list[np.ndarray] = []

    def read(self, sides: Sides, rows: Rows, is_output: bool) -> None:
        """Take in one side of some nodes."""
        for group in sides.groups(rows):
            form = sides.forms[group.form]
            code = self.codes.get(form)
            if code is None:
                code = self.codes[form] = len(self.places)
                self.places.append(self.finder.places(form))
            places = self.places[code]
            self.sides.append((group.rows, is_output, code))
            if len(group.texts[0]) > _LARGE:
                for row, text in zip(group.rows.tolist(), group.texts, strict=True):
                    self._large(places, text, row, is_output)
            elif places.steps or not places.typed:
                self._group(places, decoded(group.texts), group.rows, is_output)

    def _group(self, places: Places, found: list[Any], rows: Rows, is_output: bool) -> None:
        typed = places.typed
        if {type(one) for one in found} != {list} or {len(one) for one in found} != {typed}:
            for i, values in enumerate(found):
                found[i] = values if isinstance(values, list) else []
                self._untyped(found[i], typed, int(rows[i]), is_output)
                found[i] = (found[i] + [None] * typed)[:typed]
        whole = [step for step in places.steps if isinstance(step, int)]
        if len(whole) == len(places.steps):
            columns = [[values[at] for values in found] for at in whole]
            self.pending += columns[0] if len(columns) == 1 else chain.from_iterable(zip(*columns, strict=True))
        else:
            for values in found:
                for step in places.steps:
                    if isinstance(step, int):
                        self.pending.append(values[step])
                    else:
                        self.pending += _of_list(step, values[step.position])
        if len(self.pending) > _MOST_PENDING:
            self._convert()

    def _large(self, places: Places, text: memoryview, row: int, is_output: bool) -> None:
        """Take in a side so large that its values are not decoded at once."""
        values = raw_list(text)
        for step in places.steps:
            at = step if isinstance(step, int) else step.position
            raw = values[at] if at < len(values) else Raw(b"null")
            if isinstance(step, int):
                self.pending += decoded([raw])
            elif step.paths is not None:
                self.pending += _of_list(step, decoded([raw])[0])
            else:
                self._long_list(step, elements(bytes(raw)))
        self._untyped(decoded(values[places.typed :]), 0, row, is_output, places.typed)

    def _long_list(self, step: ListPlaces, values: Iterator[Any]) -> None:
        kept = None if step.kept is None else np.isin(np.arange(step.size), step.kept)
        for low in range(0, step.size, _MOST_PENDING):
            high = min(low + _MOST_PENDING, step.size)
            some = list(islice(values, high - low))
            some += [None] * (high - low - len(some))
            self.pending += some if kept is None else compress(some, kept[low:high].tolist())
            self._convert()

    def _untyped(self, values: list[Any], typed: int, row: int, is_output: bool, first: int = 0) -> None:
        """Take in tensors whose types are missing: their form decides."""
        for at in range(typed, len(values)):
            for element, value in _by_form(values[at]):
                self.untyped.append((row, is_output, first + at, element, value))

    def _convert(self) -> None:
        """Make numbers of the tensors that were read: ids, sizes, the code of the device, and whether it is sound."""
        values, self.pending = self.pending, []
        is_sound = None
        if not _are_tensors(values):
            is_sound = [_is_tensor(value) for value in values]
            values = [value if sound else _NO_TENSOR for value, sound in zip(values, is_sound, strict=True)]
        table = np.empty((7, len(values)), np.int64)
        if values:
            *numbers, devices = zip(*values, strict=True)
            table[:5] = numbers
            table[5] = list(map(self.devices.__getitem__, devices))
        table[6] = 1 if is_sound is None else is_sound
        self.numbers.append(table)

    def uses(self) -> TensorUses:
        """All that was read, in the order of the nodes."""
        self._convert()
        side_rows = [rows for rows, _, _ in self.sides]
        lengths = [len(rows) for rows in side_rows]
        row = np.concatenate([*side_rows, np.zeros(0, np.int64)])
        is_output = np.repeat(np.array([one[1] for one in self.sides], bool), lengths)
        code = np.repeat(np.array([one[2] for one in self.sides], np.int64), lengths)
        # Sides were read form by form; this is the order of nodes, arguments before results.
        order = np.argsort(row * 2 + is_output, kind="stable")
        counts = np.array([len(one.position) for one in self.places], np.int64)
        count = counts[code]
        end, ends = np.cumsum(count)[order], np.cumsum(counts)[code[order]]
        read, place = (expanded(one - count[order], one)[0] for one in (end, ends))
        node, output = (np.repeat(of[order], count[order]) for of in (row, is_output))
        table, self.numbers = np.concatenate(self.numbers, axis=1)[:, read], []
        sound = table[6] > 0
        typed = [
            np.concatenate([*(getattr(one, name) for one in self.places), np.zeros(0, np.int32)])[place]
            for name in ("position", "element", "dtype", "shape", "strides")
        ]
        malformed = int(np.count_nonzero(~sound))
        if malformed:
            node, output, table, typed = node[sound], output[sound], table[:, sound], [one[sound] for one in typed]
        return self._with_untyped(node, output, table, typed, malformed)

    def _with_untyped(
        self, node: Rows, output: np.ndarray, table: np.ndarray, typed: list[np.ndarray], malformed: int
    ) -> TensorUses:
        if self.untyped:
            rows, outputs, positions, elements_, self.pending = map(list, zip(*self.untyped, strict=True))
            self._convert()
            size = len(rows)
            no_form = (self.finder.dtypes[""], self.finder.shapes[()], 0)
            further = [positions, elements_, *([code] * size for code in no_form)]
            node, output = np.concatenate((node, rows)), np.concatenate((output, outputs))
            order = np.argsort(node * 2 + output, kind="stable")
            node, output = node[order], output[order]
            table = np.concatenate((table, self.numbers[-1]), axis=1)[:, order]
            typed = [np.concatenate((one, more))[order] for one, more in zip(typed, further, strict=True)]
        position, element, dtype, shape, strides = typed
        tensor, storage, offset, sizes, itemsize, device, _ = table
        return TensorUses(
            node=node, is_output=output, position=position, element=element, tensor=tensor, storage=storage,
            offset=offset, elements=sizes, itemsize=itemsize, device=device.astype(np.int32), dtype=dtype, shape=shape,
            strides=strides, devices=list(self.devices), dtypes=list(self.finder.dtypes),
            shapes=list(self.finder.shapes), all_strides=list(self.finder.all_strides), malformed=malformed,
        )  # fmt: skip


@garbage_collection_paused()
def tensor_uses(execution: ExecutionTrace, nodes: Iterable[int] | None = None) -> TensorUses:
    """Every use of a tensor in an execution trace, or by some rows of it; tensors that were not given are no uses."""
    rows = np.arange(len(execution)) if nodes is None else np.array(sorted(nodes), np.int64)
    reader = _Reader()
    reader.read(execution.inputs, rows, False)
    reader.read(execution.outputs, rows, True)
    return reader.uses()


def _of_list(step: ListPlaces, values: Any) -> list[Any]:
    """The tensors in an argument that is a list; None for each that is not there."""
    if step.paths is not None:
        return [value_at(values, path) for path in step.paths]
    if not isinstance(values, list):
        values = []
    if len(values) != step.size:
        values = (values + [None] * step.size)[: step.size]
    return values if step.kept is None else [values[i] for i in step.kept.tolist()]


def _are_tensors(values: list[Any]) -> bool:
    """Whether all values are tensors, as the observer writes them."""
    try:
        msgspec.convert(values, _WHOLE)
    except (msgspec.ValidationError, OverflowError):
        return False
    return True


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 6
        and all(type(one) is int and -(2**63) <= one < 2**63 for one in value[:5])
        and isinstance(value[5], str)
    )


def _by_form(value: Any) -> Iterator[tuple[int, Any]]:
    """Tensors in a value of unknown type, and their places; those that were not given have no device."""
    if _is_tensor(value):
        if value[5]:
            yield -1, value
        return
    for place, one in enumerate(_leaves(value, 0)):
        if _is_tensor(one) and one[5]:
            yield place, one


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    """The elements of a list, those of lists in it one by one; a tensor is an element."""
    if isinstance(value, list) and depth < _MOST_NESTED:
        for one in value:
            if isinstance(one, list) and not _is_tensor(one):
                yield from _leaves(one, depth + 1)
            else:
                yield one


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
