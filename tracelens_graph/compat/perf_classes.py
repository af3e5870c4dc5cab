"""Classes in the form of TraceLens's performance models, as models of ours.

A class is called with `(event)` and, if it takes them, `arch=None` and `python_path=None`. The event has the keys
`name`, `cat`, `args` (`Input Dims`, `Input type`, `Input Strides`, `Concrete Inputs`), `kernel_names`,
`kernel_details` (names only) and `annotation`; other keys of an event are not known where a model is asked.

Of the object these are asked: `flops()`, `bytes()`, and for the backward pass `flops_bwd()`, `bytes_bwd()`;
`get_compute_precision()` and `get_maf_type()` if they are there, else precision is that of the first tensor and units
are known by the table's name; `param_details` for the sizes that are shown. NotImplementedError, or None for the
operations, means that the model does not apply.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from tracelens_graph.errors import ExtensionError
from tracelens_graph.graph.arguments import ARGUMENTS
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost, Unit
from tracelens_graph.perf.model import CallContext, Estimate, OpModel

_OF_MATRICES = ("GEMM", "GroupedGEMM", "CONV", "SDPA", "InferenceAttention", "MoE", "SSM")
"""Beginnings of names of tables whose work matrix units do."""


def category_of(model: Any) -> str:
    """The category of ops that a class names; "" for none."""
    found = getattr(model, "category", "")
    return found if isinstance(found, str) else ""


def table_of(model: Any) -> str:
    """The table that a class names for its ops; "" for none, so that they stand in the table of all ops only."""
    found = getattr(model, "sheet_category", None) or category_of(model)
    return found if isinstance(found, str) else ""


def adapted(op: str, model: Any, table: str, source: str) -> OpModel:
    """The model that a class stands for.

    Args:
        op: name of the op.
        model: the class.
        table: where the op is shown; "" for the table of all ops only.
        source: where the class comes from, for messages.

    Raises:
        ExtensionError: it is no class, or has no methods `flops` and `bytes`.
    """
    if not isinstance(model, type):
        raise ExtensionError(f"{source}: the model of {op} has to be a class, not {type(model).__name__}")
    for method in ("flops", "bytes"):
        if not callable(getattr(model, method, None)):
            raise ExtensionError(f"{source}: {model.__name__}, the model of {op}, has no method {method}")
    has_backward = all(callable(getattr(model, method, None)) for method in ("flops_bwd", "bytes_bwd"))
    return OpModel(
        _estimate(op, model, table, ""),
        table,
        _estimate(op, model, table, "_bwd") if has_backward else None,
        uses_context=True,
    )


def _estimate(op: str, model: type, table: str, suffix: str) -> Estimate:
    taken = inspect.signature(model).parameters
    named = {name: None for name in ("arch", "python_path") if name in taken}

    def estimate(arguments: Arguments, context: CallContext) -> Cost:
        event = {
            "name": op,
            "cat": "cpu_op",
            "args": {part: deepcopy(values) for part, values in zip(ARGUMENTS, arguments.parts, strict=True) if values},
            "kernel_names": list(context.kernels),
            "kernel_details": [{"name": name} for name in context.kernels],
            "annotation": context.annotation,
        }
        try:
            one = model(event, **named)
            flops, moved = getattr(one, "flops" + suffix)(), getattr(one, "bytes" + suffix)()
        except NotImplementedError as reason:
            raise CannotModel(str(reason) or f"{model.__name__} does not say") from None
        if not _is_known(flops):
            raise CannotModel(f"{model.__name__} does not say how many operations it takes")
        sizes = getattr(one, "param_details", None)
        return Cost(
            round(flops),
            round(moved) if _is_known(moved) else None,
            _unit(one, table),
            _precision(one, arguments),
            dict(sizes) if isinstance(sizes, Mapping) else {},
        )

    return estimate


def _is_known(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _unit(one: Any, table: str) -> Unit:
    asked = one.get_maf_type() if hasattr(one, "get_maf_type") else None
    if asked in ("matrix", "vector"):
        return asked
    return "matrix" if table.startswith(_OF_MATRICES) else "vector"


def _precision(one: Any, arguments: Arguments) -> str:
    asked = one.get_compute_precision() if hasattr(one, "get_compute_precision") else None
    if isinstance(asked, str):
        return asked
    for i in range(len(arguments)):
        if tensor := arguments.optional(i):
            return tensor.type.precision
    return ""
