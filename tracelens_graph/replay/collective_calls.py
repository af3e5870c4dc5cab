"""What calls of torch.distributed say of collectives beside their tensors: the root, splits, the other end.

On GPUs a call stands above the kernel. Spans of gloo lie on threads of its own: of each kind and size as many calls and
spans belong to one another in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracelens_graph.errors import NotAValueError
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.replay.calls import number, numbers, recorded_at, sizes
from tracelens_graph.schema import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracelens_graph.graph.collectives import Collective
    from tracelens_graph.graph.core import Core
    from tracelens_graph.replay.replay_plan import Recorded


class _Form(NamedTuple):
    """Places of arguments of a call: tensors that show its size, what it says; -1 for none."""

    op: str
    tensors: int
    said: int


_FORMS = {
    "broadcast": _Form("c10d::broadcast_", 0, 2), "reduce": _Form("c10d::reduce_", 0, 3),
    "gather": _Form("c10d::gather_", 1, 3), "scatter": _Form("c10d::scatter_", -1, 3),
    "all_to_allv": _Form("c10d::alltoall_base_", 1, 3), "all_to_all": _Form("c10d::alltoall_base_", 1, 3),
    "send": _Form("c10d::send", 0, 2), "recv": _Form("c10d::recv_", 0, 2),
}  # fmt: skip
"""Kind of a collective -> its call, as PyTorch's `Ops.cpp` registers it since 2.0. Roots and other ends are places in
the group; of an exchange the splits of what is got stand at the place, and those of what is sent behind them."""


@dataclass(frozen=True)
class Called:
    """A collective with what its call says.

    Attributes:
        collective: the collective, with splits and ends of a transfer.
        root: place of the root in the group; None where no call shows it.
    """

    collective: Collective
    root: int | None = None


def called(core: Core, nodes: Iterable[Collective]) -> Iterator[Called]:
    """Collectives with what their calls say."""
    listed = list(nodes)
    calls = _on_host(core, [one for one in listed if one.on_host])
    for one in listed:
        row = calls.get(one.rows[0], -1) if one.on_host else _above(core, one)
        yield _told(one, recorded_at(core, row)) if row >= 0 else Called(one)


def _above(core: Core, one: Collective) -> int:
    """Row of the call above a kernel; -1 for none."""
    form, c = _FORMS.get(one.kind), core.columns
    above = (row for row in ancestors(c, one.rows[0]) if form and core.names[c.name[row]] == form.op)
    return next(above, -1)


def _on_host(core: Core, spans: Sequence[Collective]) -> dict[int, int]:
    """Row of a span -> row of its call."""
    c, found = core.columns, dict[int, int]()
    by_form: dict[tuple[_Form, int | None], list[int]] = {}
    for one in spans:
        if form := _FORMS.get(one.kind):
            by_form.setdefault((form, one.in_elements if form.tensors >= 0 else None), []).append(one.rows[0])
    of_op = {form.op: form for form, _ in by_form}
    codes = [code for code, name in enumerate(core.names) if name in of_op]
    calls: dict[tuple[_Form, int | None], list[int]] = {}
    for row in np.flatnonzero(np.isin(c.name, codes) & (c.kind == Kind.Op)).tolist():
        form = of_op[core.names[c.name[row]]]
        calls.setdefault((form, _elements(recorded_at(core, row), form.tensors)), []).append(row)
    for key, rows in by_form.items():
        ran = sorted(rows, key=lambda row: (int(c.start_ns[row]), row))
        if len(ran) == len(asked := sorted(calls.get(key, ()), key=lambda row: (int(c.start_ns[row]), row))):
            found |= zip(ran, asked, strict=True)
    return found


def _elements(recorded: Recorded, at: int) -> int | None:
    """Elements of the tensors at a place of a call; None where it has none or they are not recorded."""
    if not 0 <= at < len(recorded.dims):
        return None
    dims = recorded.dims[at]
    shapes = [sizes(one) for one in dims] if recorded.types[at] == "TensorList" else [sizes(dims)]
    known = [prod(shape) for shape in shapes if shape is not None]
    return sum(known) if len(known) == len(shapes) else None


def _told(one: Collective, recorded: Recorded) -> Called:
    """A collective with what the values of its call say."""
    form = _FORMS[one.kind]
    try:
        if form.op == "c10d::alltoall_base_":
            got, sent = (
                tuple(size for size in numbers(text) if type(size) is int)
                for text in recorded.values[form.said : form.said + 2]
            )
            if one.in_split:
                return Called(one)
            even = not sent and not got
            return Called(replace(one, kind="all_to_all" if even else one.kind, in_split=sent, out_split=got))
        place = number(recorded.values[form.said])
    except (NotAValueError, IndexError, ValueError):
        return Called(one)
    if type(place) is not int:
        return Called(one)
    if one.kind not in ("send", "recv"):
        return Called(one, place)
    group = one.ranks or ()
    ends = [one.rank, group[place] if 0 <= place < len(group) else place]
    source, target = ends if one.kind == "send" else reversed(ends)
    known = (one.source_rank, one.target_rank)
    source, target = (end if told is None else told for told, end in zip(known, (source, target), strict=True))
    return Called(replace(one, source_rank=source, target_rank=target))
