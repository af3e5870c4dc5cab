"""Operators run one after another, and what the program knows about their tensors written down beside them.

What is written comes from the tensors themselves while they live: which object, which storage, which memory. Nothing is
taken from a profiler, so it can serve to check what is read from one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.profiler import record_function

Json = dict[str, Any]


class Ledger:
    """Named tensors, the steps that made, read, wrote and freed them, and the facts of each.

    Attributes:
        steps: one entry per operator (`range`: the annotation it ran in; `op`; names that it `reads`, `writes` and
            `makes`) or per release (`frees`: the name given up; `dead`: names whose tensor is gone for good;
            `dead_storages`), in the order of the program.
        tensors: name -> facts. `object` and `memory` number addresses: what was freed and re-used has the number
            again. `storage` numbers storages: each has its own. `same_as` names a variable that is the very same
            tensor, `view_of` the argument whose storage it shares.
    """

    def __init__(self) -> None:
        self.steps: list[Json] = []
        self.tensors: dict[str, Json] = {}
        self._variables: dict[str, Tensor] = {}
        self._lives: dict[str, weakref.ref[Tensor]] = {}
        self._addresses: dict[tuple[str, int], int] = {}
        self._storages = 0
        self._ranges = 0

    def __getitem__(self, name: str) -> Tensor:
        return self._variables[name]

    def run(
        self, op: str, call: Callable[..., Any], *, frees: str = "", reads: str = "", writes: str = "", makes: str = ""
    ) -> None:
        """Call a function that runs one operator.

        Args:
            op: name of the operator.
            call: the function; it is given the tensors read, then those written.
            frees: names given up inside the annotation, right before the operator runs: to open the annotation takes
                memory, too, and mostly that of the tensor freed last.
            reads, writes, makes: names, with blanks between them; what is written is read, too.
        """
        named = {"reads": reads.split(), "writes": writes.split(), "makes": makes.split()}
        arguments = [self._variables[name] for name in (*named["reads"], *named["writes"])]
        label = f"## {op} {self._ranges} ##"
        self._ranges += 1
        with record_function(label):
            self.free(*frees.split())
            result = call(*arguments)
        made = [result] if isinstance(result, Tensor) else list(result or ())
        assert len(made) == len(named["makes"]), op
        for name, tensor in zip(named["makes"], made, strict=True):
            self._keep(name, tensor, (*named["reads"], *named["writes"]))
        self.steps.append({"range": label, "op": op, **named})

    def hold(self, **tensors: Tensor) -> None:
        """Name tensors that no operator of the recording made."""
        for name, tensor in tensors.items():
            self._keep(name, tensor, ())

    def free(self, *names: str) -> None:
        """Give variables up, one after another."""
        for name in names:
            storages = {self.tensors[living]["storage"] for living in self._lives}
            del self._variables[name]
            dead = [other for other, life in self._lives.items() if life() is None]
            for other in dead:
                del self._lives[other]
            left = {self.tensors[living]["storage"] for living in self._lives}
            self.steps.append({"frees": name, "dead": dead, "dead_storages": sorted(storages - left)})

    def _keep(self, name: str, tensor: Tensor, arguments: tuple[str, ...]) -> None:
        assert name not in self.tensors, name
        same = next((other for other, life in self._lives.items() if life() is tensor), None)
        sharing = {
            other: self.tensors[other]["storage"]
            for other, life in self._lives.items()
            if (living := life()) is not None and _storage(living) == _storage(tensor)
        }
        if not sharing:
            self._storages += 1
        self.tensors[name] = {
            "object": self._number("object", tensor._cdata),
            "storage": next(iter(sharing.values()), self._storages),
            "memory": self._number("memory", tensor.untyped_storage().data_ptr()),
            "same_as": same,
            "view_of": None if same else next((one for one in arguments if one in sharing), None),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "offset": tensor.storage_offset(),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "storage_bytes": tensor.untyped_storage().nbytes(),
        }
        self._variables[name] = tensor
        self._lives[name] = weakref.ref(tensor)

    def _number(self, kind: str, address: int) -> int:
        return self._addresses.setdefault((kind, address), len(self._addresses))


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
