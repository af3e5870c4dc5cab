"""The truth about the tensors of a simulated rank, told by the objects themselves, which no id can confuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tracelens_graph.simulate.events import HostEvent
from tracelens_graph.simulate.host import Process
from tracelens_graph.simulate.tensors import Tensor


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among arguments or results, those in lists too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def uses_in_order(process: Process) -> list[tuple[int, bool, HostEvent, Tensor]]:
    """(time, is result, event, tensor) of every use, arguments at the start of their operator, results at its end."""
    events = [event for event in process.hosts if event.record_id]
    uses = [(event.start, False, event, tensor) for event in events for tensor in tensors_in(event.inputs)]
    uses += [(event.end, True, event, tensor) for event in events for tensor in tensors_in(event.outputs)]
    return sorted(uses, key=lambda use: use[:2])


def tensor_truth(process: Process, recorded: Callable[[int], int]) -> dict[str, Any]:
    """Truth about tensors and storages, in the order in which operators meet them.

    tensors    one record each: uid of the operator that made it, uids of those that it is an argument of, shape, dtype,
               and place of its storage
    storages   one record each: bytes, device, uid of the operator that made it, the start of that operator, and the end
               of the last one that uses it

    What an operator is the first to give out it has made, unless it had been used before the operator began; None
    stands for what was there before.
    """
    tensors: dict[int, _Life] = {}
    storages: dict[int, _Life] = {}
    for time, is_result, event, tensor in uses_in_order(process):
        one = tensors.setdefault(id(tensor), _Life(tensor, time))
        one.used(event, is_result)
        if tensor.numel:  # no memory is needed for no elements
            memory = storages.setdefault(id(tensor.storage), _Life(tensor, time))
            memory.used(event, is_result)
            memory.bytes = max(memory.bytes, tensor.storage.bytes or tensor.bytes)  # parameters come from out of sight
    places = {key: place for place, key in enumerate(storages)}
    return {
        "tensors": [
            {
                "made_by": one.made_by and one.made_by.uid,
                "consumers": list(one.consumers),
                "shape": list(one.tensor.shape),
                "dtype": one.tensor.dtype,
                "storage": places.get(id(one.tensor.storage)) if one.tensor.numel else None,
            }
            for one in tensors.values()
        ],
        "storages": [
            {
                "bytes": one.bytes,
                "device": one.tensor.device,
                "made_by": one.made_by and one.made_by.uid,
                "start_ns": one.made_by and recorded(one.made_by.start),
                "end_ns": recorded(one.end),
            }
            for one in storages.values()
        ],
    }


@dataclass(slots=True)
class _Life:
    """What operators did with a tensor, or with the tensors of a storage."""

    tensor: Tensor
    first: int
    made_by: HostEvent | None = None
    consumers: dict[int, None] = field(default_factory=dict)
    end: int = 0
    bytes: int = 0

    def used(self, event: HostEvent, is_result: bool) -> None:
        if is_result and self.made_by is None and self.first > event.start:
            self.made_by = event
        if not is_result:
            self.consumers[event.uid] = None
        self.end = max(self.end, event.end)


def last_uses(process: Process) -> dict[int, int]:
    """When each tensor and storage, by `id`, was last used: the end of the last operator that got it or gave it."""
    found: dict[int, int] = {}
    for _, _, event, tensor in uses_in_order(process):
        for thing in (tensor, tensor.storage):
            found[id(thing)] = max(found.get(id(thing), 0), event.end)
    return found


def release_times(process: Process) -> dict[int, int]:
    """Address of device memory -> when it was given back."""
    return {instant.address: instant.time for instant in process.memory if instant.bytes < 0}
