"""Results of several devices side by side: by operation and arguments, and in sum as often as the trace calls them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

import msgspec

from tracelens_graph.errors import ResultsError
from tracelens_graph.perf.devices import Architecture, detect
from tracelens_graph.perf.roofs import least_us
from tracelens_graph.replay.planned import cost_of
from tracelens_graph.replay.replay_plan import Recorded
from tracelens_graph.replay.results import Result, read_results
from tracelens_graph.replay.tables import OF_DEVICE, REPLAY_DEVICES, REPLAY_RESULTS
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import cut_end, distinct_names, shown_name

_OF_ONE = ("tflops", "tbytes_per_s")
"""Columns that people are shown where there is one device, so that there is room."""
_NAMED = 5
"""Operations that a note names."""
_SAME_SUM = 1.002
"""Ratio up to which GPU times are those of one trace: shares of it have four digits."""
_LONGEST_NAME, _LONGEST = 100, 300
"""Characters of each, and of an error."""


class Compared(NamedTuple):
    """Results of several devices.

    Attributes:
        devices: `replay_devices`: a row per trace and per file or folder of results.
        results: `replay_results`: a row per operation and arguments.
    """

    devices: Table
    results: Table


def compared_results(*paths: str | os.PathLike[str]) -> Compared:
    """Results of some devices by operation and arguments: those that differ most in time, by their calls, first.

    Those of one device are in the order of their files, so those of a sweep in the order of its sizes.
    Sums are over the operations that all of them have, each as often as the trace calls it. What the whole trace would
    take there is the sum over the share of the trace's GPU time that these operations are: it holds if the others scale
    as they do. Where one device has results of several traces, each trace has sums of its own; else results of
    different traces are compared by arguments alone.

    Args:
        paths: files that programs wrote with `--json`, or folders of such; the first is what the others are held
            against.

    Raises:
        ResultsError: one cannot be read, or holds something else; or there are none, or more than 26.
    """
    if not 1 <= len(paths) <= len(ascii_uppercase):
        raise ResultsError(f"one to {len(ascii_uppercase)} files of results are compared, not {len(paths)}")
    names = distinct_names([os.fspath(path) for path in paths])
    read = [(name, *read_results(Path(path))) for name, path in zip(names, paths, strict=True)]
    _tell_traces_apart([one for _, results, _ in read for one in results if not one.error])
    by_trace = any(len({one.trace for one in results if not one.error}) > 1 for _, results, _ in read)
    sides = [_Side(letter, *one, by_trace) for letter, one in zip(ascii_uppercase, read, strict=False)]
    keys = dict.fromkeys(key for side in sides for key in side.found)
    rows = [_Row(key[0], [side.found.get(key) for side in sides], sides) for key in keys]
    rows.sort(key=lambda row: -row.spread_us)
    on_all = {row.group: list[_Row]() for row in rows}
    for row in rows:
        if len(row.measured) == len(sides):
            on_all[row.group].append(row)
    title = f"Results of {', '.join(f'{side.name} ({side.letter}: {side.machine})' for side in sides)}"
    without = [trace for trace, found in on_all.items() if not found]
    if len(without) < len(on_all):
        on_all = {trace: found for trace, found in on_all.items() if found}
    records = [_device(side, at, *one) for one in on_all.items() for at, side in enumerate(sides)]
    lacking = [f"no sum{f' of {one}' if one else ''}: no operation was measured on all devices" for one in without]
    of_devices = REPLAY_DEVICES.of_records(records, title, lacking)
    return Compared(of_devices, _results(rows, sides, title, list(_notes(sides, rows))))


def _tell_traces_apart(results: Sequence[Result]) -> None:
    """Give traces of one file name, whose results have shares of other sums, names of their own."""
    by_name: dict[str, list[tuple[float, Result]]] = {}
    for one in results:
        if one.total_us and one.percent:
            by_name.setdefault(one.trace, []).append((one.total_us / one.percent / 10, one))
    for found in by_name.values():
        found.sort(key=lambda pair: pair[0])
        ends = [at for at in range(1, len(found)) if found[at][0] > _SAME_SUM * found[at - 1][0]]
        for begin, end in pairwise([0, *ends, len(found)] if ends else []):
            for _, one in found[begin:end]:
                one.trace += f" ({found[begin][0]:,.4g} ms)"


def _notes(sides: Sequence[_Side], rows: Sequence[_Row]) -> Iterator[str]:
    """What is in no sum, and what limits it."""
    for side in sides:
        yield from side.notes
    if lacking := [row.first.op for row in rows if len(row.measured) < len(sides)]:
        yield f"not on all devices, so in no sum: {_listed(lacking)}"
    if any(len({one.trace for one in row.measured.values()}) > 1 for row in rows):
        yield "results are of different traces: calls, shares and the whole trace are those of the first"
    if unlike := sorted({name for row in rows for name in row.unlike_settings}):
        ops = [row.first.op for row in rows if row.unlike_settings]
        yield f"settings differ ({', '.join(unlike)}): {_listed(ops)}"
    if any(len({one.count for one in row.measured.values()}) > 1 for row in rows):
        yield "counts of calls differ: those of the first device that has an operation are taken"
    for side in sides:
        if isinstance(side.arch, str):
            yield f"{side.letter} has no roof: {side.arch}"


@dataclass(frozen=True)
class _Side:
    """The results of one device; of those of equal operation and arguments the last counts."""

    letter: str
    name: str
    results: list[Result]
    unread: list[str]
    by_trace: bool

    @cached_property
    def found(self) -> dict[tuple[str, str], Result]:
        """Trace, where traces are kept apart, and identity -> result."""
        return {(one.trace if self.by_trace else "", one.identity): one for one in self.results if not one.error}

    def field(self, name: str) -> str:
        """What the results have in a field that describes the device, up to a comma; different texts side by side."""
        values = {(getattr(one, name) or "").partition(", ")[0] for one in self.found.values()} - {""}
        return cut_end("; ".join(sorted(values)), _LONGEST_NAME)

    @property
    def machine(self) -> str:
        torch = self.field("torch")
        return ", ".join(filter(None, (self.field("device") or "nothing", torch and f"torch {torch}")))

    @cached_property
    def arch(self) -> Architecture | str:
        return detect([{"name": self.field("device")}])

    @property
    def notes(self) -> Iterator[str]:
        """What failed, is there twice or cannot be read."""
        if ops := [f"{one.op} ({one.error})" for one in self.results if one.error]:
            yield f"failed in {self.name}: {_listed(ops)}"
        if number := sum(not one.error for one in self.results) - len(self.found):
            are = "result has" if number == 1 else "results have"
            yield f"{self.name}: {number} {are} the operation and arguments of a later result, which is taken instead"
        if self.unread:
            rest = f", and {len(self.unread) - 1} more" if len(self.unread) > 1 else ""
            yield f"cannot be read: {cut_end(self.unread[0], _LONGEST)}{rest}"


class _Row:
    """One operation with its arguments on the devices."""

    def __init__(self, group: str, results: Sequence[Result | None], sides: Sequence[_Side]) -> None:
        self.measured = {at: one for at, one in enumerate(results) if one is not None}
        self.group = group
        self._sides = sides

    @property
    def first(self) -> Result:
        return next(iter(self.measured.values()))

    @property
    def spread_us(self) -> float:
        """By how much the devices differ, as often as the operation is called; below 0 for one device alone."""
        times = [one.median_us for one in self.measured.values()]
        return (max(times) - min(times)) * max(self.first.count, 1) if len(times) > 1 else -1.0

    @property
    def unlike_settings(self) -> set[str]:
        """Names of the settings under which the devices measured and that are not alike."""
        every = [one.unusual for one in self.measured.values()]
        return {name for one in every for name in one if any(one[name] != other.get(name) for other in every)}

    @cached_property
    def fastest(self) -> list[int]:
        """The devices with the least time."""
        least = min(one.median_us for one in self.measured.values())
        return [at for at, one in self.measured.items() if one.median_us == least]

    @cached_property
    def roofs_us(self) -> dict[int, float | None]:
        """The least time on each device; None where there is no model of the operation, or no roof of the device."""
        return {at: _roof_us(one, self._sides[at].arch) for at, one in self.measured.items()}


def _roof_us(result: Result, arch: Architecture | str) -> float | None:
    if result.signature is None or result.largest_size is not None or isinstance(arch, str):
        return None
    cost = cost_of(result.op, result.signature, result.kernels)
    return None if cost is None else least_us(cost, arch)


def _device(side: _Side, at: int, trace: str, rows: Sequence[_Row]) -> dict[str, Any]:
    """A row of `replay_devices`: of these rows, which all devices have, of a trace."""
    weights = [(row, row.first.count) for row in rows if row.first.count]
    total = sum(count * row.measured[at].median_us for row, count in weights)
    of_first = sum(count * row.measured[0].median_us for row, count in weights)
    with_roof = [(row.measured[at].median_us * n, roof * n) for row, n in weights if (roof := row.roofs_us[at])]
    measured, roofs = sum(us for us, _ in with_roof), sum(us for _, us in with_roof)
    shares = [row.first.percent for row, _ in weights]
    share = sum(filter(None, shares)) if weights and None not in shares else None
    traced = [row.first.traced_us for row, _ in weights]
    traced_us = (
        sum(us * n for us, (_, n) in zip(traced, weights, strict=True) if us) if weights and all(traced) else None
    )
    # Shares are of sums, which medians times calls need not be.
    of_shares = sum(row.first.total_us or us * n for us, (row, n) in zip(traced, weights, strict=True) if us)
    clocks = [one.clock_mhz for one in side.found.values() if one.clock_mhz]
    return {
        "trace": trace or next((row.first.trace for row in rows), ""),
        "device": side.letter,
        "file": side.name,
        **{field: side.field(field) for field in ("torch", "library", "driver")},
        "name": side.field("device"),
        "clock_mhz": sum(clocks) / len(clocks) if clocks else None,
        "ops": len(side.found),
        "failed": sum(bool(one.error) for one in side.results),
        "compared": len(rows),
        "calls": sum(count for _, count in weights) or None,
        "fastest": sum(at in row.fastest for row in rows),
        "sum_us": total if weights else None,
        "ratio": total / of_first if of_first else None,
        "fastest_us": sum(row.measured[at].median_us * n for row, n in weights if at in row.fastest),
        "roof_us": roofs or None,
        "percent_of_roof": 100 * roofs / measured if measured else None,
        "traced_us": traced_us,
        "replayed_percent": share,
        "trace_us": 100 * (of_shares / share) * (total / traced_us) if share and traced_us else None,
    }


def _results(rows: Sequence[_Row], sides: Sequence[_Side], title: str, notes: Sequence[str]) -> Table:
    """`replay_results`."""
    arguments: list[Any] = [msgspec.json.decode(msgspec.json.encode(row.first.signature or Recorded())) for row in rows]
    columns: dict[str, list[Any]] = {
        "op": [row.first.op for row in rows],
        "input_dims": [one.get("dims", []) for one in arguments],
        "input_types": [one.get("types", []) for one in arguments],
        "concrete_inputs": [one.get("values", []) for one in arguments],
        "count": [row.first.count for row in rows],
        "trace": [row.first.trace for row in rows],
        "fastest": [" ".join(sides[at].letter for at in row.fastest) if len(row.measured) > 1 else "" for row in rows],
    }
    more = {}
    for at, side in enumerate(sides):
        of = [row.measured.get(at) for row in rows]
        base = [row.measured.get(0) for row in rows]
        cells: dict[str, list[Any]] = {
            "us": [one and one.median_us for one in of],
            "ratio": [
                one.median_us / a.median_us if one and a and a.median_us else None
                for one, a in zip(of, base, strict=True)
            ],
            "percent_of_roof": [
                100 * roof / one.median_us if one and one.median_us and (roof := row.roofs_us[at]) else None
                for row, one in zip(rows, of, strict=True)
            ],
            "tflops": [one and one.tflops for one in of],
            "tbytes_per_s": [one and one.tbytes_per_s for one in of],
        }
        for field, values in cells.items():
            if field == "ratio" and not at:
                continue
            name = f"device_{side.letter}_{field}"
            columns[name] = values
            declared = REPLAY_RESULTS[f"{OF_DEVICE}{field}"]
            heading = declared.heading and f"{side.letter}{declared.heading}"
            if field in _OF_ONE:
                heading = declared.unit if len(sides) == 1 else None
            more[name] = replace(declared, heading=heading)
    kernels = [[one.kernels for one in row.measured.values()] for row in rows]
    columns |= {
        "traced_us": [row.first.traced_us or None for row in rows],
        "same_kernels": [len(set(map(tuple, one))) == 1 if len(one) > 1 and all(one) else None for one in kernels],
        "largest_size": [row.first.largest_size for row in rows],
    }
    return REPLAY_RESULTS.table(columns, title, notes, more=more)


def _listed(ops: Sequence[str]) -> str:
    counts = Counter(ops)
    shown = [shown_name(op, _LONGEST_NAME) + f" ({times})" * (times > 1) for op, times in counts.most_common(_NAMED)]
    return f"{len(ops)}: {', '.join(shown)}" + ", ..." * (len(counts) > _NAMED)
