"""Which uses in an execution trace are one tensor and one storage: who made it, who reads, writes and views it.

Ids name objects while they live; an id that is used again after a release is another tensor, or another storage.
Nothing in the file says so, but order and memory do. Uses are taken in the one order of all begins (arguments) and ends
(results) of nodes, `ExecutionTrace.moments`. Then

* a result is a new tensor, made by the operator, unless the operator got it as an argument, or it was made inside of
  it: so the lowest operator that gives a tensor out has made it, and those around only pass it on;
* where no schema says what a result is, one that any open operator got as an argument is no new tensor either;
* a result that the operator wrote in place (`Tensor(a!)` in its schema) stays the tensor that it was, whatever became
  of its shape and storage (`resize_`, `set_`). So does an argument of what runs inside of an operator that writes it:
  `index_select` resizes its `out` unseen;
* another storage, offset, type or shape at an id is another tensor, made out of sight if it comes as an argument;
* `record_param_comms` makes nothing;
* a tensor that comes up as an argument inside of the operator that makes it, before the operator gives it out, is the
  new tensor from there on. So is one with the id of a result from inside that had another form: `index_select` makes a
  tensor without elements, resizes it unseen, and fills it row by row;
* a new tensor lies on the storage of an argument, or of what was used inside of its operator before the tensor, if it
  has that storage id: it is a view. Else its operator allocated the storage, and whatever else had been on that id is
  gone, tensors included;
* a tensor that was resized unseen lies on new memory, which the operator around allocated, unless its storage id was
  used since the tensor was;
* a tensor that comes as an argument and whose making was not seen lies on what its storage id last stood for, if that
  had the same type of elements and it is not just a number;
* tensors without elements, and those with storage id 0 (symbolic ones), have no storage.

Limits: an id that is re-used out of sight (by code that records no operators) with the same storage and form is taken
for the same tensor. An operator without a schema that gives out a view of a tensor which it did not get (one that a
closure held) is taken to have allocated it. Of operators on several threads the order of their begins is known, but of
their ends only that they follow what began inside. Releases are not recorded: a tensor is alive until its last use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens_graph.execution.op_schemas import OpSchema, Result, op_schema
from tracelens_graph.execution.tensor_uses import TensorUses, tensor_uses
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.utils.arrays import Codes, Mask, Rows

_FORM = ("storage", "offset", "elements", "itemsize", "device", "dtype", "shape", "strides")
"""What stays the same of a tensor unless it is written in place."""

_NUMBERS = ("long int", "double", "bool", "c10::complex<double>")
"""Types of the elements of tensors that stand for Python numbers."""


@dataclass(eq=False)
class Tensors:
    """Tensors in columns, in the order in which they are met.

    Attributes:
        id: as recorded.
        version: which of the tensors with this id it is, from 1 on.
        producer: row of the node that made it; -1 for one that was there before, or made out of sight.
        view_of: number of the tensor that it is a view of; -1 for none.
        storage: number of the storage that it was on at first; -1 for none.
        first_use: place of its first use in `TensorUses`, which has its form.
        first, last: moment of its first use, and of the end of the last node that uses it.
    """

    id: np.ndarray
    version: np.ndarray
    producer: Rows
    view_of: Rows
    storage: Codes
    first_use: Rows
    first: np.ndarray
    last: Rows

    def __len__(self) -> int:
        return len(self.id)


@dataclass(eq=False)
class Storages:
    """Storages in columns, in the order in which they are met.

    Attributes:
        id: as recorded.
        version: which of the storages with this id it is, from 1 on.
        producer: row of the node that allocated it; -1 for one that was there before, or made out of sight.
        bytes: how far its tensors reach: the least that it can have. Without strides (schemas before 1.1.1), of tensors
            that are no views.
        device: code into `TensorUses.devices`.
        first, last: moment from which on it is there (the begin of its producer, 0 without one), and of the end of the
            last node that uses it.
    """

    id: np.ndarray
    version: np.ndarray
    producer: Rows
    bytes: np.ndarray
    device: np.ndarray
    first: np.ndarray
    last: Rows

    def __len__(self) -> int:
        return len(self.id)


@dataclass(eq=False)
class Lineage:
    """Tensors and storages of an execution trace, and what was done to them.

    Attributes:
        execution: the execution trace.
        uses: every use of a tensor.
        moment: when each use is, as `ExecutionTrace.moments` count.
        tensor: number of the tensor of each use.
        storage: number of the storage of each use; -1 for none.
        makes: whether the use is the making of its tensor.
        writes: whether the use is an argument that the node writes, or a result of a collective.
        reads: whether the use is an argument whose content the node reads.
        tensors, storages: what there is.
    """

    execution: ExecutionTrace
    uses: TensorUses
    moment: np.ndarray
    tensor: Codes
    storage: Codes
    makes: Mask
    writes: Mask
    reads: Mask
    tensors: Tensors
    storages: Storages


class _Schemas(NamedTuple):
    """What the schemas say, per use."""

    result: np.ndarray
    written: Mask
    unread: Mask
    can_make: Mask
    sets_storage: Mask


class _Begins(NamedTuple):
    """Where tensors begin and where they change.

    Attributes:
        by_id: the uses by tensor id.
        starts: whether a tensor begins with a use.
        in_place: results that are arguments which the operator wrote.
        resized: arguments in a new form of tensors that an operator around them writes.
        late, met: results whose tensors were arguments before they were given out, and these arguments.
    """

    by_id: _Order
    starts: Mask
    in_place: Mask
    resized: Mask
    late: np.ndarray
    met: np.ndarray


def lineage(execution: ExecutionTrace) -> Lineage:
    """The tensors and storages of an execution trace; the module's docstring gives the rule."""
    uses = tensor_uses(execution)
    begin, end = execution.moments
    node, is_output = uses.node, uses.is_output
    moment = np.where(is_output, end[node], begin[node])
    by_schema = _schemas(execution, uses)
    by_id = _Order(uses.tensor, moment, begin[node], end[node], is_output)
    own = _is_argument(uses, uses.tensor)
    same_form = by_id.equal([getattr(uses, name) for name in _FORM])
    in_place = is_output & own & (by_schema.result == Result.written)
    known = (by_schema.result == Result.fresh) | (by_schema.result == Result.view)
    new = is_output & ~own & by_schema.can_make
    inside = by_id.any_inside(new)
    kept = (same_form & (own | inside | (by_id.held() & ~known) | ~by_schema.can_make)) | in_place
    starts = by_id.is_first | np.where(is_output, ~kept, ~same_form)
    resized = ~is_output & ~same_form & by_id.held_by_others(by_schema.written & ~by_schema.sets_storage)
    starts[resized] = False
    late, met = by_id.met_inside(np.flatnonzero(new & same_form & (starts | inside)), starts)
    starts[late], starts[met] = False, True

    tensors_begin = _Begins(by_id, starts, in_place, resized, late, met)
    storage = _storages_of_uses(uses, by_schema, moment, begin, end, tensors_begin)
    moved = by_id.differs(storage) & (storage >= 0) & (by_id.before(uses.storage, -1) == uses.storage)
    starts |= moved & ~in_place & (by_id.before(storage, -1) >= 0)

    tensor, first_use = by_id.numbers(starts, moment)
    makes = (new | (is_output & starts & by_schema.can_make)) & (moment[first_use][tensor] >= begin[node])
    makes &= ~_seen_before(tensor, moment, makes)
    producer = np.full(len(first_use), -1, np.int64)
    producer[tensor[makes]] = node[makes]
    view_of = _views(uses, tensor, storage, producer, first_use)
    last = np.zeros(len(first_use), np.int64)
    np.maximum.at(last, tensor, end[node])
    tensors = Tensors(
        id=uses.tensor[first_use],
        version=_versions(uses.tensor[first_use]),
        producer=producer,
        view_of=view_of,
        storage=storage[first_use],
        first_use=first_use,
        first=moment[first_use],
        last=last,
    )
    around = np.where(execution.is_op[execution.parent[node]], execution.parent[node], -1)
    allocator = np.where(is_output & by_schema.can_make, node, np.where(resized, around, -1))
    storages = _storages(uses, tensors, tensor, storage, moment, begin, end, allocator)
    written = np.where(is_output, ~by_schema.can_make & ~makes, by_schema.written)
    return Lineage(
        execution=execution, uses=uses, moment=moment, tensor=tensor, storage=storage, makes=makes, writes=written,
        reads=~is_output & ~by_schema.unread, tensors=tensors, storages=storages,
    )  # fmt: skip


class _Order:
    """Uses by an id, then by moment; answers are in the order of the uses."""

    def __init__(self, id: np.ndarray, moment: np.ndarray, begin: np.ndarray, end: np.ndarray, is_output: Mask) -> None:
        self._order = order = np.lexsort((moment, id))
        self._is_first = np.ones(len(id), bool)
        self._is_first[1:] = id[order][1:] != id[order][:-1]
        self._span = int(end.max(initial=0)) + 2
        # Ids follow one another on one axis, so that one running maximum serves all of them.
        self._group = np.cumsum(self._is_first) * self._span
        self._moment, self._begin, self._end = moment[order], begin[order], end[order]
        self._is_output = is_output[order]

    def _in_order_of_uses(self, values: np.ndarray) -> np.ndarray:
        answer = np.empty_like(values)
        answer[self._order] = values
        return answer

    @property
    def is_first(self) -> Mask:
        """Whether a use is the first of its id."""
        return self._in_order_of_uses(self._is_first)

    def before(self, values: np.ndarray, absent: int) -> np.ndarray:
        """The value of the use before it of the same id."""
        answer = np.full(len(values), absent, values.dtype)
        answer[1:] = values[self._order][:-1]
        answer[self._is_first] = absent
        return self._in_order_of_uses(answer)

    def differs(self, values: np.ndarray) -> Mask:
        """Whether there is a use before it with another value."""
        return ~self.is_first & ~self.equal([values])

    def equal(self, columns: list[np.ndarray]) -> Mask:
        """Whether there is a use before it with equal values."""
        answer = ~self._is_first
        for column in columns:
            ordered = column[self._order]
            answer[1:] &= ordered[1:] == ordered[:-1]
        return self._in_order_of_uses(answer)

    def held(self) -> Mask:
        """Whether a node that has the id as an argument is open at the use; of a result, its own node among them."""
        # Moments count from 0, so one is added: 0 is left for "never".
        until = np.maximum.accumulate(self._group + np.where(self._is_output, 0, self._end + 1))
        return self._in_order_of_uses(until >= self._group + self._moment + 1)

    def held_by_others(self, chosen: Mask) -> Mask:
        """Whether a node that has the id as an argument, among the uses chosen, is open since before the use."""
        until = np.maximum.accumulate(self._group + np.where(chosen[self._order], self._end + 1, 0))
        when = self._group + self._moment
        # `left`: uses at the same moment, its own node's among them, do not count.
        before = np.searchsorted(when, when) - 1
        return self._in_order_of_uses((before >= 0) & (until[before] >= when + 1))

    def any_inside(self, chosen: Mask) -> Mask:
        """Whether the id was used since the node of the use began, counting the chosen uses."""
        latest = np.zeros(len(chosen), np.int64)
        latest[1:] = np.maximum.accumulate(self._group + np.where(chosen[self._order], self._moment + 1, 0))[:-1]
        return self._in_order_of_uses(latest >= self._group + self._begin + 1)

    def met_inside(self, results: np.ndarray, starts: Mask) -> tuple[np.ndarray, np.ndarray]:
        """Of the results given, those that were arguments inside of their node before it gave them out, and these uses.

        Of each result the first such use since the id started anew; of several results with one such use, the first.
        """
        place = np.empty(len(starts), np.int64)
        place[self._order] = np.arange(len(starts))
        at = np.sort(place[results])
        ordered = starts[self._order]
        started = np.maximum.accumulate(np.where(ordered, np.arange(len(starts)), 0))[at - 1]
        begun = np.searchsorted(self._group + self._moment, self._group[at] + self._begin[at])
        first = np.maximum(begun, started)
        met = (begun < at) & ~self._is_output[first] & (ordered[at] | (started >= begun))
        first, chosen = np.unique(first[met], return_index=True)
        return self._order[at[met][chosen]], self._order[first]

    def numbers(self, starts: Mask, moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Runs of uses numbered in the order in which they are met: the number of each use, and their first uses."""
        ordered = starts[self._order]
        run = np.cumsum(ordered) - 1
        first = self._order[ordered]
        order = np.lexsort((first, moment[first]))
        number = np.empty(len(first), np.int64)
        number[order] = np.arange(len(first))
        return self._in_order_of_uses(number[run]) if len(run) else run, first[order]


def _schemas(execution: ExecutionTrace, uses: TensorUses) -> _Schemas:
    """What the schemas say of each use; asked once per operator, side and position."""
    name, schema = execution.name[uses.node].astype(np.int64), execution.schema[uses.node]
    width = int(uses.position.max(initial=0)) + 1
    pair, of_use = np.unique(name * (len(execution.schemas) + 1) + schema, return_inverse=True)
    ops = [divmod(key, len(execution.schemas) + 1) for key in pair.tolist()]
    found = [op_schema(execution.names[name], execution.schemas[schema]) for name, schema in ops]
    asked, back = np.unique((of_use * width + uses.position) * 2 + uses.is_output, return_inverse=True)
    result, written, unread, makes, sets = (np.zeros(len(asked), kind) for kind in (np.int8, bool, bool, bool, bool))
    for i, key in enumerate(asked.tolist()):
        rest, is_output = divmod(key, 2)
        which, position = divmod(rest, width)
        one: OpSchema = found[which]
        result[i] = one.result(position) if is_output else Result.unknown
        written[i], unread[i] = not is_output and position in one.written, position in one.unread
        makes[i] = one.makes
        sets[i] = execution.names[ops[which][0]] == "aten::set_"
    return _Schemas(*(column[back] for column in (result, written, unread, makes, sets)))


def _is_argument(uses: TensorUses, ids: np.ndarray) -> Mask:
    """Whether the id of each use is that of an argument of its node."""
    _, code = np.unique(ids, return_inverse=True)
    key = uses.node * (int(code.max(initial=0)) + 1) + code
    return np.isin(key, key[~uses.is_output])


def _storages_of_uses(
    uses: TensorUses,
    by_schema: _Schemas,
    moment: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
    found: _Begins,
) -> np.ndarray:
    """The number of each use's storage; -1 for none."""
    by_id, starts, in_place, resized, late, met = found
    has = (uses.storage > 0) & (uses.elements > 0)
    ids = np.where(has, uses.storage, -1)
    by_storage = _Order(ids, moment, begin[uses.node], end[uses.node], uses.is_output)
    moved = in_place & by_id.differs(uses.storage) & ~by_schema.sets_storage
    known = (by_schema.result != Result.unknown) & ~by_schema.sets_storage
    shared = _is_argument(uses, ids) | by_storage.any_inside(np.ones(len(uses), bool)) | (by_storage.held() & ~known)
    allocates = uses.is_output & by_schema.can_make & ((starts & ~in_place) | moved) & ~shared
    last_used = by_storage.before(moment, -1)
    allocates[met] = (last_used[met] < begin[uses.node[late]]) & ~(by_storage.held() & ~known)[late]
    allocates |= resized & by_id.differs(uses.storage) & (last_used < by_id.before(moment, -1))
    unseen = starts & ~uses.is_output
    unseen[met] = False
    elsewhere = by_storage.differs(uses.device) | (unseen & (by_storage.differs(uses.dtype) | _is_number(uses)))
    first = by_storage.is_first | (has & (allocates | elsewhere))
    number, first_use = by_storage.numbers(first, moment)
    none = np.flatnonzero(~has[first_use])
    if len(none):  # those without a storage are one run
        number = np.where(number == none[0], -1, number - (number > none[0]))
    return number


def _is_number(uses: TensorUses) -> Mask:
    """Whether a tensor has the form that a Python number gets as an argument: no operator makes it."""
    dtypes = [i for i, dtype in enumerate(uses.dtypes) if dtype in _NUMBERS]
    on_host = [i for i, device in enumerate(uses.devices) if device == "cpu"]
    scalar = [i for i, shape in enumerate(uses.shapes) if shape == ()]
    has_form = np.isin(uses.dtype, dtypes) & np.isin(uses.device, on_host) & np.isin(uses.shape, scalar)
    return has_form & (uses.elements == 1) & (uses.offset == 0)


def _seen_before(number: np.ndarray, moment: np.ndarray, chosen: Mask) -> Mask:
    """Whether a use is not the first one that is chosen of those with its number."""
    places = np.flatnonzero(chosen)
    places = places[np.lexsort((places, moment[places], number[places]))]
    answer = np.zeros(len(number), bool)
    answer[places[1:]] = number[places[1:]] == number[places[:-1]]
    return answer


def _views(uses: TensorUses, tensor: Codes, storage: Codes, producer: Rows, first_use: Rows) -> np.ndarray:
    """What each is a view of: an argument of its producer on its storage, else the first tensor there; -1 for none."""
    count, most = len(first_use), int(storage.max(initial=0)) + 2
    lies = storage >= 0
    argument = np.flatnonzero(lies & ~uses.is_output)
    key = uses.node[argument] * most + storage[argument]
    distinct, first = np.unique(key, return_index=True)
    on = storage[first_use]
    wanted = np.where((producer >= 0) & (on >= 0), producer * most + on, -1)
    at = np.minimum(np.searchsorted(distinct, wanted), max(len(distinct) - 1, 0))
    view = np.full(count, -1, np.int64)
    if len(distinct):
        hit = distinct[at] == wanted
        view[hit] = tensor[argument[first[at[hit]]]]
    base = np.full(most, count, np.int64)
    np.minimum.at(base, on[on >= 0], np.flatnonzero(on >= 0))
    inside = (view < 0) & (producer >= 0) & (on >= 0)
    view[inside] = base[on[inside]]
    return np.where(view == np.arange(count), -1, view)


def _versions(ids: np.ndarray) -> np.ndarray:
    """Which of those with the same id each is, from 1 on."""
    order = np.argsort(ids, kind="stable")
    first = np.ones(len(ids), bool)
    first[1:] = ids[order][1:] != ids[order][:-1]
    place = np.arange(len(ids))
    version = np.empty(len(ids), np.int64)
    version[order] = place - np.maximum.accumulate(np.where(first, place, 0)) + 1
    return version


def _storages(
    uses: TensorUses,
    tensors: Tensors,
    tensor: Codes,
    storage: Codes,
    moment: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
    allocator: np.ndarray,
) -> Storages:
    on = np.flatnonzero(storage >= 0)
    on = on[np.lexsort((on, moment[on], storage[on]))]
    number, first = np.unique(storage[on], return_index=True)
    first_use, count = on[first], len(number)
    of_tensor = tensor[first_use]
    begins_here = tensors.first_use[of_tensor] == first_use
    made = np.where(begins_here, tensors.producer[of_tensor], -1)
    producer = np.where(allocator[first_use] >= 0, allocator[first_use], made)
    last, size, known = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.maximum.at(last, storage[on], end[uses.node[on]])
    reach, exact = _reaches(uses)
    np.maximum.at(size, storage[on], reach[on])
    sure = on[exact[on] | (tensors.view_of[tensor[on]] < 0)]
    np.maximum.at(known, storage[sure], reach[sure])
    ids = uses.storage[first_use]
    return Storages(
        id=ids,
        version=_versions(ids),
        producer=producer,
        bytes=np.where(known > 0, known, size),
        device=uses.device[first_use],
        first=np.where(producer >= 0, begin[producer], 0),
        last=last,
    )


def _reaches(uses: TensorUses) -> tuple[np.ndarray, np.ndarray]:
    """How many bytes from the start of its storage each tensor reaches, and whether strides are known."""
    pair, back = np.unique(uses.shape.astype(np.int64) * len(uses.all_strides) + uses.strides, return_inverse=True)
    elements, exact = np.zeros(len(pair), np.int64), np.zeros(len(pair), bool)
    for i, key in enumerate(pair.tolist()):
        of_shape, of_strides = divmod(key, len(uses.all_strides))
        shape, strides = uses.shapes[of_shape], uses.all_strides[of_strides]
        if strides is not None and len(strides) == len(shape):
            reach = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
            exact[i] = 0 < reach < 2**62
            elements[i] = reach if exact[i] else 0
    elements, exact = elements[back], exact[back]
    within = np.clip(uses.offset.astype(float) + np.where(exact, elements, uses.elements), 0, 2.0**62)
    bytes_ = within * np.clip(uses.itemsize, 0, 2**20)
    return np.clip(bytes_, 0, 2.0**62).astype(np.int64), exact
