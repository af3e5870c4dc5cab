"""Recorded arguments of a call as values, each by the type of its parameter.

What the profiler does not record comes from an execution trace, or from what stands below the call; else it is
assumed, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from tracelens_graph.errors import CannotReplay
from tracelens_graph.execution.sides import Argument as Observed
from tracelens_graph.execution.tensor_places import elements_of_type
from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.calls import UNREADABLE, Call, number, numbers, sizes
from tracelens_graph.replay.choosing import LINK, SCALAR, SCALARS, TENSORS
from tracelens_graph.replay.indexing import index_tensors
from tracelens_graph.replay.replay_plan import Argument, Named, TensorValue, Value, default_of, named
from tracelens_graph.replay.schemas import Parameter, Schema

_NO_VALUES = "values of arguments are not recorded"
_NEWER = f"record with a newer PyTorch, or {LINK}"
_LONGEST_LIST = 30
_SPARSE = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def read(call: Call, schema: Schema) -> list[Argument]:
    """The arguments of a call by its schema, all tensors still filled alike.

    Raises:
        CannotReplay: an argument was not recorded, and nothing stands for it.
    """
    return [_Reader(call, at, parameter).argument() for at, parameter in enumerate(schema.parameters)]


class _Reader:
    """Reads the argument at a position of a call, as its parameter says."""

    def __init__(self, call: Call, at: int, parameter: Parameter) -> None:
        def of(part: Sequence[Any]) -> Any:
            return part[at] if at < len(part) else None

        self.call, self.parameter, self.kind = call, parameter, parameter.kind
        self.written, self.text = call.recorded.types[at], of(call.recorded.values) or ""
        self.dims, self.strides = of(call.recorded.dims), of(call.recorded.strides)
        same = len(call.observed) == len(call)
        self.observed: Observed | None = call.observed[at] if same else None
        self.assumed = ""

    def argument(self) -> Argument:
        if self.kind.base == "Tensor":
            value = self._tensors() if self.kind.is_list else self._tensor()
        elif self.kind.is_list:
            value = self._list()
        else:
            value = _BY_BASE.get(self.kind.base, _Reader._number)(self)
        return Argument(self.parameter.name, self.parameter.declared, value, self.assumed)

    # --- tensors ---------------------------------------------------------------------------------------------

    def _tensor(self) -> Value:
        if not self.written:
            return None
        shape, steps, dtype = sizes(self.dims), sizes(self.strides), torch_dtype(self.written)
        if shape is None:
            raise CannotReplay("sizes of a tensor cannot be read")
        if not dtype:
            raise CannotReplay(f"element type {self.written[:40]!r} is not one of PyTorch's")
        found = TensorValue(shape, dtype)
        if steps is not None and len(steps) == len(shape):
            found = TensorValue(shape, dtype, steps)
        elif not self.call.recorded.strides:
            self.assumed = "strides are not recorded; dense, the last dimension innermost" if len(shape) > 1 else ""
        elif self.strides:
            raise CannotReplay(UNREADABLE)
        else:
            return self._sparse(shape, dtype)
        return found if self.observed is None else observed_tensor(found, self.observed)

    def _sparse(self, shape: tuple[int, ...], dtype: str) -> TensorValue:
        """A tensor that was recorded without strides, though strides are recorded."""
        self.assumed = "strides are not recorded, as of sparse tensors; layout and entries are a guess"
        return TensorValue(shape, dtype, layout=sparse_layout(self.call))

    def _tensors(self) -> Value:
        if self.observed is not None and (known := observed_tensors(self.observed)) is not None:
            given = self.strides if isinstance(self.strides, tuple) and len(self.strides) == len(known) else known
            return tuple(
                self._sparse(one.shape, one.dtype) if one is not None and one.shape and strides == () else one
                for one, strides in zip(known, given, strict=True)
            )
        if self.written in TENSORS and isinstance(self.dims, tuple) and self.dims:
            given = self.strides if isinstance(self.strides, tuple) else ()
            return tuple(self._listed(sizes(dims), given[at : at + 1]) for at, dims in enumerate(self.dims))
        if not self.written and self.kind.is_optional:
            return None
        if self.kind.has_optional_elements:
            if self.parameter.name != "indices" or (found := index_tensors(self.call)) is None:
                raise CannotReplay("lists of optional tensors are not recorded", LINK)
            self.assumed = found[1]
            return found[0]
        if self.parameter.default is not None:
            return ()
        if self.written in TENSORS and self.call.recorded.values:
            raise CannotReplay(f"lists of more than {_LONGEST_LIST} tensors are not recorded", LINK)
        raise CannotReplay("lists of tensors are not recorded", LINK)

    def _listed(self, shape: tuple[int, ...] | None, given: Sequence[Any]) -> TensorValue:
        """A tensor of a list, without a recorded dtype."""
        if shape is None:
            raise CannotReplay("sizes of a list of tensors cannot be read", LINK)
        strides = sizes(given[0]) if given else None
        if strides is not None and len(strides) == len(shape):
            return TensorValue(shape, "", strides)
        if given and given[0]:
            raise CannotReplay(UNREADABLE)
        return TensorValue(shape, "") if strides is None else self._sparse(shape, "")

    # --- values ----------------------------------------------------------------------------------------------

    def _number(self) -> Value:
        if self.written == SCALAR:
            if self.text:
                return named(self.parameter, number(self.text))
            if self.observed is not None and isinstance(self.observed.value, (bool, int, float)):
                return named(self.parameter, self.observed.value)
            return self._default()
        if self.kind.is_optional:
            return None
        raise CannotReplay(f"a value of type {self.kind.base} is not recorded", LINK)

    def _default(self) -> Value:
        if self.parameter.default is None:
            raise CannotReplay(_NO_VALUES, _NEWER)
        self.assumed = "its value is not recorded; this is the default"
        return default_of(self.parameter)

    def _list(self) -> Value:
        if self.written == SCALARS and self.text:
            return numbers(self.text)
        seen = self.observed.value if self.observed is not None else None
        if isinstance(seen, list) and all(type(one) in (bool, int, float) for one in seen):
            return tuple(seen)
        if self.kind.is_optional and (not self.written or not self.call.recorded.values):
            return None
        if self.written == SCALARS or not self.call.recorded.values:
            return self._default()
        if self.parameter.name == "size":  # tensors have fewer dimensions
            raise CannotReplay("lists of numbers are not recorded", _NEWER)
        raise CannotReplay(f"lists of more than {_LONGEST_LIST} numbers are not recorded", LINK)

    def _string(self) -> Value:
        if self.observed is not None and self.observed.type == "String" and isinstance(self.observed.value, str):
            return self.observed.value
        if self.observed is not None and self.observed.type == "None":
            return None
        if (chosen := chosen_string(self.call, self.parameter.name)) is not None:
            value, self.assumed = chosen
            return value
        if self.parameter.default is None and not self.kind.is_optional:
            raise CannotReplay("a string is not recorded", LINK)
        self.assumed = "strings are not recorded; this is the default"
        default = self.parameter.default_value
        return default if isinstance(default, str) else None

    def _device(self) -> Value:
        if self.observed is not None and isinstance(self.observed.value, str):
            return Named("device", "cpu" if self.observed.value == "cpu" else "device")
        has_tensors = any(one not in ("", SCALAR, SCALARS) for one in self.call.recorded.types)
        return None if self.kind.is_optional and has_tensors else Named("device", "device")

    def _generator(self) -> Value:
        return None if self.kind.is_optional else Named("generator")

    def _refused(self) -> Value:
        raise CannotReplay(f"a value of type {self.kind.base} is not recorded")


_BY_BASE = {
    "str": _Reader._string, "Device": _Reader._device, "Generator": _Reader._generator, "Storage": _Reader._refused,
    "Stream": _Reader._refused,
}  # fmt: skip


def sparse_layout(call: Call) -> str:
    """The layout of sparse tensors of a call, as far as names show it."""
    names = " ".join([call.op, *call.around.children])
    found = next((one for one in _SPARSE if one in names or one.removeprefix("sparse_") + "_" in names), "")
    if found or "ccol_indices" in names or "::row_indices" in names:
        return found or "sparse_csc"
    # Values that are read without a look at whether they are coalesced are of a compressed layout.
    reads = call.around.is_traced and "aten::values" in (call.op, *call.around.children)
    compressed = reads and "aten::is_coalesced" not in call.around.children
    return "sparse_csr" if compressed or "crow_indices" in names or "::col_indices" in names else "sparse_coo"


_REDUCTIONS = {
    "ReduceMean|::div_|true_divide": "mean", "ReduceMultiply|::prod|::mul": "prod", "ReduceMaximum|amax": "amax",
    "ReduceMinimum|amin": "amin", "ReduceAdd|scatter_add": "sum",
}  # fmt: skip

_PADS = {
    "constant_pad": "constant", "reflection_pad": "reflect", "replication_pad": "replicate",
    "_pad_circular|circular": "circular",
}  # fmt: skip

CHOICES: tuple[tuple[str, str, Mapping[str, str | None], str | None], ...] = (
    ("pad", "mode", _PADS, "constant"),
    ("gelu_?(backward)?(_backward)?", "approximate",
     {r"Gelu\w*KernelImpl\(.*lambda\(\)#1": "tanh", r"Gelu\w*KernelImpl\(.*lambda\(\)#2": "none"}, "none"),
    ("(div|divide)_?", "rounding_mode",
     {"div_floor|floor_div": "floor", "div_trunc": "trunc", "div_true|DivFunctor": None}, "floor"),
    ("scatter_reduce_?", "reduce", _REDUCTIONS, "sum"),
    ("index_reduce_?", "reduce", _REDUCTIONS, "prod"),
    ("_?segment_reduce(_backward)?", "reduce", {}, "sum"),
    ("scatter_?", "reduce", {"ReduceMultiply|multiply": "multiply", "ReduceAdd": "add"}, "add"),
    ("meshgrid", "indexing", {"::(transpose|swap|swapaxes)": "xy"}, "ij"),
    ("_linalg_check_errors", "api_name", {}, "replay"),
    ("_assert_(async|scalar)|_functional_assert_(async|scalar)", "assert_msg", {}, "replay"),
    ("linalg_norm", "ord", {"svd": "nuc"}, "fro"),
    ("linalg_matrix_norm", "ord", {"svd": "nuc"}, "fro"),
    ("linalg_cond", "p", {"svd": "nuc"}, "fro"),
    ("conv[123]d|_convolution_mode", "padding", {"::constant_pad|::pad": "same"}, "valid"),
)  # fmt: skip
"""Strings that the profiler does not record: pattern of the op's whole name, parameter, what stands for a value among
the names of child ops and kernels (pattern -> value), and what is assumed without any. The first that fits counts."""


def chosen_string(call: Call, parameter: str) -> tuple[str | None, str] | None:
    """A string that was not recorded, and why it was chosen, empty where the trace has it; None without a rule."""
    for op, name, signs, otherwise in CHOICES:
        if name == parameter and re.fullmatch(op, call.name):
            evidence = [*call.around.children, *call.around.kernels]
            for sign, value in signs.items():
                if any(re.search(sign, one) for one in evidence):
                    return value, ""
            return otherwise, "strings are not recorded, and nothing below the call shows them"
    return None


def observed_tensor(tensor: TensorValue, observed: Observed) -> TensorValue:
    """A tensor with its place in its storage, as an execution trace has it.

    The observer wrote: id, storage, offset, elements, bytes, device. The number of the storage is that of the trace.
    """
    seen = observed.value
    if not isinstance(seen, list) or len(seen) < 6:
        return tensor
    storage, offset, device = seen[1], seen[2], seen[5]
    if not (type(storage) is int and type(offset) is int and storage > 0 and 0 <= offset < 2**48):
        storage, offset = None, 0
    return replace(tensor, storage=storage, offset=offset, on_cpu=device == "cpu")


def observed_tensors(observed: Observed) -> tuple[TensorValue | None, ...] | None:
    """A list of tensors of an execution trace; None for what is none, or cannot be read."""
    types = [kind for path, kind in elements_of_type(observed.type) if len(path) == 1]
    if not isinstance(observed.value, list) or len(types) != len(observed.value):
        return None
    shapes, strides = (one if isinstance(one, list) else [] for one in (observed.shape, observed.strides))
    found: list[TensorValue | None] = []
    for type_, value, dims, given in zip_longest(types, observed.value, shapes[: len(types)], strides[: len(types)]):
        if not type_.startswith("Tensor(") or "nullptr" in type_:
            found.append(None)
            continue
        shape, steps, dtype = sizes(dims), sizes(given), torch_dtype(type_[len("Tensor(") : -1])
        if shape is None or not dtype:
            return None
        tensor = TensorValue(shape, dtype, steps if steps is not None and len(steps) == len(shape) else None)
        found.append(observed_tensor(tensor, Observed(value, shape, type_)))
    return tuple(found)
