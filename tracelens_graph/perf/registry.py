"""Models by the names of their ops, made from the table of ops. A registry is a mapping that is passed along."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any

from tracelens_graph.op_table import OP_TABLE
from tracelens_graph.op_table.entry import ModelSpec, OpEntry
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.model import CallContext, Estimate, OpModel, sheets_of
from tracelens_graph.utils.lazy import Lazy

_NUMBERED = re.compile(r"(sglang_profiler::.+)_\d+")
"""SGLang numbers the instances of its ranges."""


@cache
def _made(entry: OpEntry) -> OpModel:
    assert entry.model is not None
    reader = _reader(entry.model)
    return OpModel(
        _estimate(entry.model),
        entry.sheet,
        backward=_estimate(entry.backward) if entry.backward else None,
        uses_context=getattr(reader, "uses_context", False),
        claims=entry.in_tracelens or entry.is_part,
        inside=getattr(reader, "inside", ()),
        grids=getattr(reader, "grids", False),
    )


def models_of(table: Mapping[str, OpEntry]) -> Lazy[OpModel]:
    """The models of a table of ops. Looking one up imports its family and no other; going through names imports none.

    Args:
        table: op name -> what is known of it; ops without a model are left out.
    """
    return Lazy({name: entry for name, entry in table.items() if entry.model}, _made)


MODELS: Mapping[str, OpModel] = models_of(OP_TABLE)
"""All models. Those of ops that TraceLens has no model of claim no GPU events."""


@cache
def _estimate(spec: ModelSpec) -> Estimate:
    reader: Any = _reader(spec)
    parameters: dict[str, Any] = dict(spec.parameters)
    if spec.tensors is not None:
        return partial(_of_tensors, reader, spec.tensors, **parameters)
    return reader(**parameters) if isinstance(reader, type) else partial(reader, **parameters)


def _of_tensors(
    formula: Callable[..., Cost], places: Sequence[int], arguments: Arguments, _: CallContext, **parameters: Any
) -> Cost:
    """The cost of a call by a formula that takes some of its tensors."""
    return formula(*map(arguments.tensor, places), **parameters)


def _reader(spec: ModelSpec) -> Any:
    return getattr(import_module(f"tracelens_graph.perf.families.{spec.family}"), spec.reader)


@cache
def sheets() -> tuple[str, ...]:
    """Names of all tables by family."""
    found = (sheets_of(entry.sheet, entry.backward is not None) for entry in OP_TABLE.values())
    return tuple(sorted({sheet for several in found for sheet in several}))


def unnumbered(name: str) -> str:
    """The name of an op without the number that SGLang gives to instances of its ranges."""
    found = _NUMBERED.fullmatch(name)
    return found[1] if found else name


def model_named(name: str, models: Mapping[str, OpModel] = MODELS) -> OpModel | None:
    """The model of an op: by its name, by that without a number of the instance, or as a compiled kernel."""
    found = models.get(name)
    if found is None:
        found = models.get(unnumbered(name))
    if found is None and name.startswith("triton_"):
        from tracelens_graph.perf.families.triton import triton_model

        found = triton_model(name)
    return found
