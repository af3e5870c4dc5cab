"""Recorded arguments of a call as values, each by the type of its parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracelens_graph.execution.sides import Argument as Observed
from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.arguments import Argument, Named, TensorValue, Value
from tracelens_graph.replay.call import Call
from tracelens_graph.replay.feasible import UNREADABLE
from tracelens_graph.replay.indexing import index_tensors
from tracelens_graph.replay.observed import observed_tensor, observed_tensors, observed_value
from tracelens_graph.replay.recorded_values import Number, number, numbers, sizes
from tracelens_graph.replay.replay_plan import CannotReplay
from tracelens_graph.replay.resolve import NAMED, SCALAR, SCALARS, TENSORS
from tracelens_graph.replay.schemas import Parameter, Schema
from tracelens_graph.replay.strings import NoStringError, choose_string

LINK = "give the execution trace of the run: --et FILE"
"""What would tell what the profiler does not record."""

_NO_VALUES = "values of arguments are not recorded"
_LONGEST_LIST = 30
_SPARSE_GUESS = "strides are not recorded, as of sparse tensors; layout and entries are a guess"
_SPARSE = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def read(call: Call, schema: Schema) -> list[Argument]:
    """The arguments of a call by its schema, all tensors still filled alike.

    Raises:
        CannotReplay: an argument was not recorded, and nothing stands for it.
    """
    return [_Reader(call, at, parameter).argument() for at, parameter in enumerate(schema.parameters)]


class _Reader:
    """Reads one argument.

    Args:
        call: the call.
        at: position of the argument.
        parameter: its parameter.
    """

    def __init__(self, call: Call, at: int, parameter: Parameter) -> None:
        recorded = call.recorded
        self.call, self.parameter = call, parameter
        self.written = recorded.types[at]
        self.text = recorded.values[at] if at < len(recorded.values) else ""
        self.has_values = bool(recorded.values)
        self.dims = recorded.dims[at] if at < len(recorded.dims) else None
        self.strides = recorded.strides[at] if at < len(recorded.strides) else None
        self.has_strides = bool(recorded.strides)
        same = len(call.observed) == len(call)
        self.observed: Observed | None = call.observed[at] if same else None
        self.assumed = ""

    def argument(self) -> Argument:
        kind = self.parameter.kind
        if kind.base == "Tensor":
            value = self._tensors() if kind.is_list else self._tensor()
        elif kind.is_list:
            value = self._list()
        else:
            value = _BY_BASE.get(kind.base, _Reader._number)(self)
        return Argument(self.parameter.name, self.parameter.declared, value, self.assumed)

    # --- tensors ---------------------------------------------------------------------------------------------

    def _tensor(self) -> Value:
        if not self.written:
            return None
        shape = sizes(self.dims)
        if shape is None:
            raise CannotReplay("sizes of a tensor cannot be read")
        found = self._strided(shape, self.written, self.strides)
        if self.observed is None or found.layout != "strided":
            return found
        return observed_tensor(found, self.observed)

    def _strided(self, shape: tuple[int, ...], written: str, strides: Any) -> TensorValue:
        dtype = torch_dtype(written)
        if not dtype:
            raise CannotReplay(f"element type {written[:40]!r} is not known", "a newer version of tracelens_graph")
        steps = sizes(strides)
        if steps is not None and len(steps) == len(shape):
            return TensorValue(shape, dtype, steps)
        if not self.has_strides:
            self.assumed = "strides are not recorded; dense, the last dimension innermost" if len(shape) > 1 else ""
            return TensorValue(shape, dtype)
        if strides:
            raise CannotReplay(UNREADABLE)
        self.assumed = _SPARSE_GUESS
        return TensorValue(shape, dtype, layout=sparse_layout(self.call))

    def _tensors(self) -> Value:
        kind = self.parameter.kind
        if self.observed is not None and (known := observed_tensors(self.observed)) is not None:
            return self._with_layouts(known)
        if self.written in TENSORS and isinstance(self.dims, (list, tuple)) and self.dims:
            return self._list_of_tensors(self.dims)
        if not self.written and kind.is_optional:
            return None
        if kind.has_optional_elements:
            return self._optional_tensors()
        if self.parameter.default is not None:
            return ()
        if self.written in TENSORS and self.has_values:
            raise CannotReplay(f"lists of more than {_LONGEST_LIST} tensors are not recorded", LINK)
        raise CannotReplay("lists of tensors are not recorded", LINK)

    def _with_layouts(self, known: tuple[TensorValue | None, ...]) -> Value:
        """Tensors of a list, those that were recorded without strides as sparse ones."""
        given = self.strides if isinstance(self.strides, (list, tuple)) and len(self.strides) == len(known) else ()
        found = list(known)
        for at, (one, strides) in enumerate(zip(known, given, strict=False)):
            if one is not None and one.shape and strides == ():
                self.assumed = _SPARSE_GUESS
                found[at] = TensorValue(one.shape, one.dtype, layout=sparse_layout(self.call))
        return tuple(found)

    def _list_of_tensors(self, dims: Sequence[Any]) -> Value:
        given = self.strides if isinstance(self.strides, (list, tuple)) else ()
        found: list[TensorValue] = []
        for at, shape in enumerate(map(sizes, dims)):
            if shape is None:
                raise CannotReplay("sizes of a list of tensors cannot be read", LINK)
            strides = sizes(given[at]) if at < len(given) else None
            if at < len(given) and given[at] and (strides is None or len(strides) != len(shape)):
                raise CannotReplay(UNREADABLE)
            if strides is not None and len(strides) != len(shape):
                self.assumed = _SPARSE_GUESS
                found.append(TensorValue(shape, "", layout=sparse_layout(self.call)))
                continue
            found.append(TensorValue(shape, "", strides))
        return tuple(found)

    def _optional_tensors(self) -> Value:
        if self.parameter.name == "indices" and (told := index_tensors(self.call)) is not None:
            found, self.assumed = told
            return found
        raise CannotReplay("lists of optional tensors are not recorded", LINK)

    # --- values ----------------------------------------------------------------------------------------------

    def _number(self) -> Value:
        if self.written == SCALAR and self.text:
            return self._as_parameter(number(self.text))
        if self.written == SCALAR:
            return self._unrecorded_value()
        if self.parameter.kind.is_optional:
            return None
        raise CannotReplay(f"a value of type {self.parameter.kind.base} is not recorded", LINK)

    def _as_parameter(self, value: Number) -> Value:
        base = self.parameter.kind.base
        if base in NAMED and type(value) is int:
            kind, names = NAMED[base]
            return Named(kind, names[value])  # type: ignore[arg-type]
        return value

    def _unrecorded_value(self) -> Value:
        if self.observed is not None and isinstance(self.observed.value, (bool, int, float)):
            return self._as_parameter(self.observed.value)
        if self.parameter.default is None:
            raise CannotReplay(_NO_VALUES, "record with a newer PyTorch, or " + LINK)
        self.assumed = "its value is not recorded; this is the default"
        return self._default()

    def _default(self) -> Value:
        value = self.parameter.default_value
        if isinstance(value, list):
            return tuple(value)
        return self._as_parameter(value) if isinstance(value, (bool, int, float)) else value

    def _list(self) -> Value:
        if self.written == SCALARS and self.text:
            return numbers(self.text)
        if self.observed is not None and (known := observed_value(self.observed)) is not None:
            return known
        if self.parameter.kind.is_optional and (not self.written or not self.has_values):
            return None
        if self.written == SCALARS or not self.has_values:
            if self.parameter.default is None:
                raise CannotReplay(_NO_VALUES, "record with a newer PyTorch, or " + LINK)
            self.assumed = "its value is not recorded; this is the default"
            return self._default()
        raise CannotReplay(f"lists of more than {_LONGEST_LIST} numbers are not recorded", LINK)

    def _string(self) -> Value:
        if self.observed is not None and self.observed.type == "String" and isinstance(self.observed.value, str):
            return self.observed.value
        if self.observed is not None and self.observed.type == "None":
            return None
        default = self.parameter.default_value
        try:
            value, self.assumed = choose_string(
                self.call, self.parameter.name, default if isinstance(default, str) else None,
                self.parameter.default is not None or self.parameter.kind.is_optional,
            )  # fmt: skip
        except NoStringError:
            raise CannotReplay("a string is not recorded", LINK) from None
        return value

    def _device(self) -> Value:
        if self.observed is not None and isinstance(self.observed.value, str):
            return Named("device", "cpu" if self.observed.value == "cpu" else "device")
        if self.parameter.kind.is_optional and any(
            one not in ("", SCALAR, SCALARS) for one in self.call.recorded.types
        ):
            return None
        return Named("device", "device")

    def _generator(self) -> Value:
        return None if self.parameter.kind.is_optional else Named("generator")

    def _refused(self) -> Value:
        raise CannotReplay(f"a value of type {self.parameter.kind.base} is not recorded")


_BY_BASE = {
    "str": _Reader._string, "Device": _Reader._device, "Generator": _Reader._generator, "Storage": _Reader._refused,
    "Stream": _Reader._refused,
}  # fmt: skip


def sparse_layout(call: Call) -> str:
    """The layout of sparse tensors of a call, as far as names tell it."""
    names = " ".join([call.op, *call.around.children])
    found = next((one for one in _SPARSE if one in names or one.removeprefix("sparse_") + "_" in names), "")
    if found:
        return found
    if "ccol_indices" in names or "::row_indices" in names:
        return "sparse_csc"
    if "crow_indices" in names or "::col_indices" in names or _reads_compressed(call):
        return "sparse_csr"
    return "sparse_coo"


def _reads_compressed(call: Call) -> bool:
    """Whether values of a sparse tensor were read without a look at whether it is coalesced."""
    reads = "aten::values" in (call.op, *call.around.children)
    return reads and call.around.is_traced and "aten::is_coalesced" not in call.around.children
