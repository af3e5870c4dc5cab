"""How work and memory grow when an input doubles, told by counting calls, elements and bytes, not by a clock."""

from __future__ import annotations

import re
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from types import FrameType, ModuleType
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import numpy as np

from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed


class Cost(NamedTuple):
    """What a call cost.

    Attributes:
        steps: lines run and functions called, those written in C too.
        scanned: bytes that patterns and JSON decoders of the modules under watch went over.
        peak: bytes allocated at most at one time, beyond those before the call.
    """

    steps: int
    scanned: int
    peak: int


_SLACK = Cost(steps=1000, scanned=1 << 14, peak=1 << 18)
"""What may come on top, so that neither the first call of something nor a block more is taken for growth."""


def assert_growth(
    prepare: Callable[[int], Callable[[], object]],
    size: int,
    *,
    modules: Iterable[ModuleType] = (),
    at_most: float = 2.2,
) -> None:
    """Fail if a cost grows by more than a factor where the input doubles, twice in a row.

    Args:
        prepare: makes the input of a size, uncounted, and returns the call to count.
        size: the smallest of the three sizes.
        modules: whose patterns and decoders are watched.
        at_most: largest growth allowed for each doubling; quadratic work would be 4.
    """
    watched = list(modules)
    prepare(size)()  # imports, caches and compiled patterns
    costs = [cost(prepare(size * factor), watched) for factor in (1, 2, 4)]
    for once, twice in pairwise(costs):
        for quantity, before, after, slack in zip(Cost._fields, once, twice, _SLACK, strict=True):
            assert after <= at_most * before + slack, f"{quantity} at n, 2n, 4n: {[*zip(*costs, strict=True)]}"


def calls(call: Callable[[], object]) -> int:
    """How many functions are called on the way, those of Python and those written in C; cheaper than `cost`."""
    total = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal total
        total += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(before)
    return total


def steps(call: Callable[[], object]) -> int:
    """How many lines are run and functions called on the way, those written in C too."""
    total = 0

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal total
        total += event in ("call", "c_call")

    def traced(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal total
        total += event == "line"
        return traced

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(traced)
    sys.setprofile(called)
    try:
        call()
    finally:
        sys.setprofile(before[1])
        sys.settrace(before[0])
    return total


def cost(call: Callable[[], object], modules: Iterable[ModuleType] = ()) -> Cost:
    """Run a call and count."""
    meter = _Meter()
    with _watched(modules, meter):
        tracemalloc.start()
        try:
            made = steps(call)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    return Cost(made, meter.scanned, peak)


class _Meter:
    """Bytes that were looked at."""

    scanned = 0


class _Pattern:
    """A compiled pattern that notes how far it looks; a `match` that fails counts as one byte."""

    def __init__(self, pattern: re.Pattern[Any], meter: _Meter) -> None:
        self._pattern, self._meter = pattern, meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pattern, name)

    def search(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Any:
        found = self._pattern.search(text, pos, endpos)
        self._meter.scanned += (found.end() if found else min(endpos, len(text))) - pos
        return found

    def match(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Any:
        return self._anchored(self._pattern.match(text, pos, endpos))

    def fullmatch(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Any:
        return self._anchored(self._pattern.fullmatch(text, pos, endpos))

    def finditer(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[Any]:
        for found in self._pattern.finditer(text, pos, endpos):
            self._meter.scanned += found.end() - pos
            pos = found.end()
            yield found
        self._meter.scanned += min(endpos, len(text)) - pos

    def findall(self, text: Any, *bounds: int) -> Any:
        self._meter.scanned += len(text)
        return self._pattern.findall(text, *bounds)

    def sub(self, replacement: Any, text: Any) -> Any:
        self._meter.scanned += len(text)
        return self._pattern.sub(replacement, text)

    def _anchored(self, found: Any) -> Any:
        self._meter.scanned += found.end() - found.start() if found else 1
        return found


class _Decoder:
    """A JSON decoder that notes how much it is given."""

    def __init__(self, decode: Callable[..., Any], meter: _Meter) -> None:
        self._decode, self._meter = decode, meter

    def __call__(self, text: Any, *args: Any, **options: Any) -> Any:
        self._meter.scanned += len(text)
        return self._decode(text, *args, **options)

    decode = __call__


@contextmanager
def _watched(modules: Iterable[ModuleType], meter: _Meter) -> Iterator[None]:
    with mock.patch.object(msgspec.json, "decode", _Decoder(msgspec.json.decode, meter)):
        replaced: list[tuple[ModuleType, str, Any]] = []
        for module in modules:
            for name, value in list(vars(module).items()):
                stand_in = _stand_in(value, meter)
                if stand_in is not value:
                    replaced.append((module, name, value))
                    setattr(module, name, stand_in)
        try:
            yield
        finally:
            for module, name, value in replaced:
                setattr(module, name, value)


def _stand_in(value: Any, meter: _Meter) -> Any:
    if isinstance(value, re.Pattern):
        return _Pattern(value, meter)
    if isinstance(value, msgspec.json.Decoder):
        return _Decoder(value.decode, meter)
    if isinstance(value, dict) and any(isinstance(one, re.Pattern) for one in value.values()):
        return {key: _stand_in(one, meter) for key, one in value.items()}
    return value


class Metered(np.ndarray):
    """An array that counts itself, all that is cut from it or computed with it, and what is read to compute that."""

    made = 0

    def __array_finalize__(self, source: object) -> None:
        Metered.made += self.size

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        read = inputs[1:] if method == "at" else inputs
        Metered.made += max((one.size for one in read if isinstance(one, np.ndarray)), default=0)
        for name in ("out", "where", "indices"):
            if name in options:
                options[name] = _plain(options[name])
        return _metered(getattr(ufunc, method)(*map(_plain, inputs), **options))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return np.ndarray.view(value, np.ndarray) if isinstance(value, Metered) else value


def _metered(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(_metered, value)) if type(value) in (tuple, list) else value
    return value.view(Metered) if type(value) is np.ndarray and value.dtype != object else value


def _counting(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        return _metered(function(*args, **options))

    return call


def elements(call: Callable[[], object]) -> int:
    """How many elements the arrays have that a call makes, or computes with, whatever function of numpy makes them."""
    made = {
        name: _counting(function)
        for name, function in vars(np).items()
        if not name.startswith("_") and type(function) in (type(len), type(np.unique))
    }
    Metered.made = 0
    with mock.patch.multiple(np, **made):
        call()
    return Metered.made


def metered(core: Core) -> Core:
    """A graph of its own with the same columns, all of them metered; nothing is known yet of what can be derived."""
    return changed(core, columns=Columns({name: array.view(Metered) for name, array in core.columns}))
