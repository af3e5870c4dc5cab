"""Which tensors of a sequence of calls are one: results that become arguments, and arguments in one storage.

An execution trace proves it. `Lineage` separates tensors with an id that was used again, so that equal numbers here
are one tensor. A tensor that no call of the sequence makes is given; given tensors in one storage share memory, and a
given tensor in the storage of a result is a view of that. Without an execution trace each argument is a tensor of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_field
from itertools import pairwise

from msgspec.structs import replace

from tracelens_graph.execution.link import GraphTensors, tensors_of
from tracelens_graph.graph.core import Core
from tracelens_graph.perf.scalar_types import item_size, torch_dtype
from tracelens_graph.replay.replay_plan import Argument, ReplayPlan, TensorValue, Use, Value, tensors, uses

_ALIGNED = 512
_ABSOLUTE = frozenset({"as_strided", "as_strided_", "_reinterpret_tensor", "set_"})
"""Operations that say offsets from the begin of a storage."""

_LARGEST_OFFSET = 1 << 40


@dataclass(frozen=True)
class LinkedCall:
    """A call whose tensors have numbers.

    Attributes:
        plan: the call.
        makes: results that later calls need: number, then where it stands in what the call returns.
        frees: numbers that no call behind it needs.
    """

    plan: ReplayPlan
    makes: tuple[tuple[int, ...], ...] = ()
    frees: tuple[int, ...] = ()

    @property
    def uses(self) -> Iterator[Use]:
        """Tensors among the arguments, in order."""
        yield from uses(one.value for one in self.plan.arguments)

    def changed(self, change: Callable[[Value], Value]) -> LinkedCall:
        """The call with each argument changed."""
        return with_field(self, plan=self.plan.with_arguments(lambda one: replace(one, value=change(one.value))))


@dataclass(frozen=True)
class Sharing:
    """Calls of a sequence with their tensors linked.

    Attributes:
        calls: the calls, in order.
        written: numbers of given tensors that a call changes, so that they have to be restored between runs.
        same_values: number -> a number for all tensors that hold the same values, or parts of them.
    """

    calls: tuple[LinkedCall, ...]
    written: tuple[int, ...]
    same_values: Mapping[int, int]


def link(core: Core, rows: Sequence[int], plans: Sequence[ReplayPlan]) -> Sharing:
    """Link the tensors of calls.

    Args:
        core: the graph; with an execution trace it shows which tensors are one.
        rows: rows of the calls, in order.
        plans: their plans.
    """
    return _Linker(tensors_of(core)).linked(rows, plans)


class _Linker:
    def __init__(self, known: GraphTensors | None) -> None:
        self._known = known
        self._numbers: dict[int, int] = {}
        self._count = 0
        self._made: dict[int, int] = {}
        self._maker_of_storage: dict[int, int] = {}
        self._given_storage: dict[int, int] = {}
        self._storages_given: set[int] = set()
        self._written: set[int] = set()
        self._written_storages: set[int] = set()
        self._parents: dict[int, int] = {}

    def linked(self, rows: Sequence[int], plans: Sequence[ReplayPlan]) -> Sharing:
        calls = [self._call(row, plan) for row, plan in zip(rows, plans, strict=True)]
        absolute = {
            self._given_storage[use.number]
            for call in calls
            if call.plan.op.rpartition("::")[2] in _ABSOLUTE
            for use in call.uses
            if use.number in self._given_storage
        }
        placed = self._placed(calls, absolute)
        last: dict[int, int] = {}
        for at, call in enumerate(placed):
            for use in call.uses:
                last[use.number if use.of is None else use.of] = at
        ended: dict[int, list[int]] = {}
        made = {one[0] for call in placed for one in call.makes}
        for number, at in last.items():
            if number in made:
                ended.setdefault(at, []).append(number)
        written = self._written | {n for n, storage in self._given_storage.items() if storage in self._written_storages}
        return Sharing(
            tuple(
                with_field(
                    call,
                    makes=tuple(one for one in call.makes if last.get(one[0], -1) > at),
                    frees=tuple(ended.get(at, ())),
                )
                for at, call in enumerate(placed)
            ),
            tuple(sorted(written - made)),
            {number: self._root(number) for number in range(self._count)},
        )

    # --- numbers ---------------------------------------------------------------------------------------------

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def _number(self, tensor: int) -> int:
        if tensor not in self._numbers:
            self._numbers[tensor] = self._new()
        return self._numbers[tensor]

    def _root(self, number: int) -> int:
        while number in self._parents:
            number = self._parents[number]
        return number

    def join(self, one: int, other: int) -> None:
        """Note that two tensors hold the same values."""
        one, other = self._root(one), self._root(other)
        if one != other:
            self._parents[max(one, other)] = min(one, other)

    # --- calls -----------------------------------------------------------------------------------------------

    def _call(self, row: int, plan: ReplayPlan) -> LinkedCall:
        into, out = ([], []) if self._known is None else self._known.uses_at(row)
        at = {self._where(use): use for use in into}
        changed = plan.restored
        values: dict[str, Value] = {}
        local: dict[int, int] = {}
        for position, argument in enumerate(plan.arguments):
            values[argument.name] = self._argument(argument, position, plan, at, local)
            if argument.name in changed:
                self._note_written(values[argument.name], position, at)
        makes = tuple(self._results(into, out))
        self._carry(plan, values, makes)
        return LinkedCall(plan.with_arguments(lambda one: replace(one, value=values[one.name])), makes)

    def _where(self, use: int) -> tuple[int, int]:
        assert self._known is not None
        uses = self._known.lineage.uses
        return int(uses.position[use]), int(uses.element[use])

    def _argument(
        self, argument: Argument, position: int, plan: ReplayPlan, at: Mapping[tuple[int, int], int],
        local: dict[int, int],
    ) -> Value:  # fmt: skip
        value = argument.value
        if isinstance(value, tuple) and any(tensors(value)):
            # Those that were not given have no use, but count as elements.
            return tuple(
                self._tensor(one, at.get((position, place)), plan, local) if isinstance(one, TensorValue) else one
                for place, one in enumerate(value)
            )
        if isinstance(value, TensorValue):
            return self._tensor(value, at.get((position, -1)), plan, local)
        use = at.get((position, -1))
        if use is not None and argument.type.startswith("Tensor") and isinstance(value, int | float | complex):
            # A number of Python is no result of a call; what is, is a tensor without dimensions.
            tensor = self._tensor_of(use)
            written = plan.recorded.types[position] if position < len(plan.recorded.types) else ""
            if tensor in self._made and torch_dtype(written):
                return Use(self._made[tensor], TensorValue((), torch_dtype(written)))
        return value

    def _tensor_of(self, use: int) -> int:
        assert self._known is not None
        return int(self._known.lineage.tensor[use])

    def _storage_of(self, use: int) -> int:
        assert self._known is not None
        return int(self._known.lineage.storage[use])

    def _tensor(self, value: TensorValue, use: int | None, plan: ReplayPlan, local: dict[int, int]) -> Value:
        if not value.is_filled:
            return value
        if plan.op.endswith("_"):
            value = replace(value, grad=False)  # what autograd follows cannot be written in place
        if use is None:
            number = self._new()
            if value.storage is not None:
                # Storages of a plan are numbered within its call.
                value = replace(value, storage=local.setdefault(value.storage, -1 - self._count))
                self._give(number, value.storage)
            return Use(number, value)
        assert self._known is not None
        tensor, storage = self._tensor_of(use), self._storage_of(use)
        if tensor in self._made:
            return Use(self._made[tensor], replace(value, storage=None, offset=0))
        number = self._number(tensor)
        offset = int(self._known.lineage.uses.offset[use])
        if storage < 0 or not 0 <= offset < _LARGEST_OFFSET:
            return Use(number, replace(value, storage=None))
        value = replace(value, storage=storage, offset=offset)
        if storage in self._maker_of_storage:
            of = self._maker_of_storage[storage]
            self.join(number, of)
            return Use(number, value, of)
        self._give(number, storage)
        return Use(number, value)

    def _give(self, number: int, storage: int | None) -> None:
        if storage is not None:
            self._given_storage[number] = storage
            self._storages_given.add(storage)

    def _note_written(self, value: Value, position: int, at: Mapping[tuple[int, int], int]) -> None:
        for one in uses((value,)):
            self._written.add(one.number)
            if one.number in self._given_storage:
                self._written_storages.add(self._given_storage[one.number])
        for (where, _), use in at.items():
            if where == position and (storage := self._storage_of(use)) >= 0:
                self._written_storages.add(storage)

    def _results(self, into: Sequence[int], out: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Results that are not arguments, and where they stand: nowhere, for a call that returns one tensor."""
        if self._known is None or not out:
            return
        arguments = {self._tensor_of(use) for use in into}
        link = self._known.lineage
        node = int(link.uses.node[out[0]])
        single = len(link.execution.outputs[node].decoded()) == 1
        for use in out:
            tensor, (position, element) = self._tensor_of(use), self._where(use)
            if tensor in arguments:
                continue
            number = self._number(tensor)
            self._made[tensor] = number
            storage = self._storage_of(use)
            if storage >= 0 and storage not in self._storages_given:
                self._maker_of_storage[storage] = number
            yield number, *([] if single else [position]), *([] if element < 0 else [element])

    # --- values ----------------------------------------------------------------------------------------------

    def _carry(self, plan: ReplayPlan, values: Mapping[str, Value], makes: Sequence[tuple[int, ...]]) -> None:
        """Note which tensors hold the same values after a call: views, and what is copied."""
        arguments = list(uses(tuple(values.values())))
        is_view = "Tensor(a)" in plan.schema
        if is_view or plan.op.rpartition("::")[2].strip("_") in _COPIES:
            first = next(iter(values.values()), None)
            sources = arguments if plan.op.endswith("copy_") else list(uses((first,)))
            numbers = [one.number for one in sources] + [one[0] for one in makes]
            for one, other in pairwise(numbers):
                self.join(one, other)

    # --- memory ----------------------------------------------------------------------------------------------

    def _placed(self, calls: Sequence[LinkedCall], absolute: set[int]) -> list[LinkedCall]:
        """The calls with given tensors in storages that are as large as these need, and begin where the first does."""
        users: dict[int, set[int]] = {}
        for number, storage in self._given_storage.items():
            users.setdefault(storage, set()).add(number)
        low: dict[int, int] = {}
        high: dict[int, int] = {}
        for use in (use for call in calls for use in call.uses if use.of is None and use.tensor.storage is not None):
            storage, size = use.tensor.storage or 0, item_size(use.tensor.dtype)
            begin = use.tensor.offset * size
            low[storage] = min(low.get(storage, begin), 0 if storage in absolute else begin)
            high[storage] = max(high.get(storage, 0), begin + use.tensor.span * size, use.tensor.reach * size)
        compact = {storage: at for at, storage in enumerate(s for s, of in users.items() if len(of) > 1)}

        def changed(value: Value) -> Value:
            if not isinstance(value, Use):
                return tuple(map(changed, value)) if isinstance(value, tuple) else value
            recorded = value.tensor
            if value.of is not None or recorded.storage is None:
                return replace(value, tensor=replace(recorded, storage=None))
            size = item_size(recorded.dtype)
            begin = low[recorded.storage] // _ALIGNED * _ALIGNED
            reach = -(-(high[recorded.storage] - begin) // size)
            is_shared = recorded.storage in compact
            placed = replace(recorded, offset=recorded.offset - begin // size, storage=compact.get(recorded.storage))
            return replace(value, tensor=replace(placed, reach=reach if is_shared else max(recorded.reach, 0)))

        return [call.changed(changed) for call in calls]


_COPIES = frozenset({
    "clone", "contiguous", "reshape", "to", "to_copy", "copy", "cat", "stack", "index_select", "repeat", "pin_memory",
    "flatten", "flip", "roll", "gather", "masked_select", "index", "unsafe_view", "detach", "alias",
})  # fmt: skip
"""Operations whose results hold values of their first argument, names without underscores at the ends."""
