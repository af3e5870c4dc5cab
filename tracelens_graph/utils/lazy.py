"""Mappings whose values are made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Lazy(Mapping[str, Value], Generic[Value]):
    """Values by name, each made of what stands for it when it is first asked for; looking for a name makes none.

    Args:
        given: name -> what stands for its value.
        made: makes the value of that.
    """

    def __init__(self, given: Mapping[str, Any], made: Callable[[Any], Value]) -> None:
        self._given, self._make = given, made
        self._made: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        if name not in self._made:
            self._made[name] = self._make(self._given[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)
