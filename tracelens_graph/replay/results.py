"""Results that programs wrote on two machines, side by side."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tracelens_graph.errors import ResultsError
from tracelens_graph.replay.folder import INDEX
from tracelens_graph.replay.replay_plan import Recorded
from tracelens_graph.replay.tables import REPLAY_RESULTS
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import cut_end, distinct_names, shown_name

_LARGEST = 64 << 20
"""Bytes of a file that is read."""
_NAMED = 5
"""Operations that a note names."""
_LONGEST_NAME = 100
"""Characters of each."""
_OTHERS = ("operations.json", INDEX)
"""Files of a folder that hold something else."""
_LONGEST = 300
"""Characters of an error."""


class Result(msgspec.Struct):
    """A result of a program; the names are those that `replay.program.measure` writes.

    Attributes:
        signature: its arguments; None for several operations in their order, which have none of their own.
        error: why there is none; empty if there is.
        count: calls in the trace; of a list of operations.
        largest_size: no size was above this; None if sizes are those of the trace.
    """

    op: str
    signature: Recorded | None = None
    device: str = ""
    torch: str = ""
    median_us: Annotated[float, msgspec.Meta(ge=0)] = math.nan
    tflops: float | None = None
    tbytes_per_s: float | None = None
    traced_us: float | None = None
    kernels: list[str] = []
    error: str = ""
    count: int = 1
    largest_size: int | None = None

    @property
    def identity(self) -> str:
        """What tells it from others of its file: operation, arguments, and how far they were shrunk."""
        return json.dumps([self.op, msgspec.to_builtins(self.signature), self.largest_size])

    @property
    def machine(self) -> str:
        """Where it is from."""
        return cut_end(f"{self.device}, torch {self.torch}", _LONGEST_NAME)


def read_results(path: str | os.PathLike[str]) -> list[Result]:
    """Results in a file, or in all files of results in a folder, by name.

    Raises:
        ResultsError: it cannot be read, or holds something else.
    """
    return _read_all(Path(path))[0]


def _read_all(where: Path) -> tuple[list[Result], list[str]]:
    """Results, and why others cannot be read.

    Raises:
        ResultsError: none can; the first reason.
    """
    results: list[Result] = []
    errors: list[str] = []
    for file in sorted(where.glob("*.json")) if where.is_dir() else [where]:
        if where.is_dir() and (file.name in _OTHERS or file.name.endswith(".trace.json") or file.name.startswith(".")):
            continue
        try:
            for at, entry in enumerate(_entries(file)):
                try:
                    results.append(_result(file, at, entry))
                except ResultsError as error:
                    errors.append(str(error))
        except ResultsError as error:
            errors.append(str(error))
    if not results:
        raise ResultsError([*errors, f"{where}: holds no results; write them with --json"][0])
    return results, errors


def compared_results(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> Table:
    """Two machines' results by operation and arguments: those that differ most in time first.

    Args:
        first, second: files that programs wrote with `--json`, or folders of such.

    Returns:
        `replay_results`: a row per operation and arguments that both have. Notes tell what is in one alone, and what
        failed.

    Raises:
        ResultsError: a file cannot be read, or holds something else.
    """
    names = distinct_names([os.fspath(first), os.fspath(second)])
    (of_first, bad), (of_second, more_bad) = _read_all(Path(first)), _read_all(Path(second))
    sides = [of_first, of_second]
    found = [{one.identity: one for one in side if not one.error} for side in sides]
    both = [(found[0][key], found[1][key]) for key in found[0] if key in found[1]]
    both.sort(key=lambda pair: -abs(pair[1].median_us - pair[0].median_us))
    devices = ["; ".join(sorted({one.machine for one in side.values()})) or "nothing" for side in found]
    title = f"Results of {names[0]} (A: {devices[0]}) and {names[1]} (B: {devices[1]})"
    notes = [note for at, name in enumerate(names) for note in _notes(name, sides[at], found[at], found[1 - at])]
    if unread := [*bad, *more_bad]:
        rest = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
        notes.append(f"cannot be read: {cut_end(unread[0], _LONGEST)}{rest}")
    return REPLAY_RESULTS.of_records([_row(*pair) for pair in both], title, notes)


def _notes(name: str, side: list[Result], own: dict[str, Result], other: dict[str, Result]) -> Iterator[str]:
    """What is in one side alone, failed there, or is there twice."""
    if ops := [one.op for key, one in own.items() if key not in other]:
        yield f"only in {name}: {_listed(ops)}"
    if ops := [f"{one.op} ({one.error})" for one in side if one.error]:
        yield f"failed in {name}: {_listed(ops)}"
    if number := sum(not one.error for one in side) - len(own):
        twice = "are of an operation and arguments that a later one is of, too: the last counts"
        yield f"in {name} {number} results {twice}"


def _row(a: Result, b: Result) -> dict[str, Any]:
    arguments = a.signature or Recorded()
    return {
        "op": a.op,
        "input_dims": json.dumps(arguments.dims),
        "input_types": json.dumps(arguments.types),
        "concrete_inputs": json.dumps(arguments.values),
        "device_a": a.device,
        "device_b": b.device,
        "median_us_a": a.median_us,
        "median_us_b": b.median_us,
        "difference_us": b.median_us - a.median_us,
        "ratio": b.median_us / a.median_us if a.median_us else None,
        "tflops_a": a.tflops,
        "tflops_b": b.tflops,
        "traced_us": a.traced_us or None,
        "same_kernels": a.kernels == b.kernels if a.kernels and b.kernels else None,
        "largest_size": a.largest_size,
    }


def _listed(ops: Sequence[str]) -> str:
    shown = ", ".join(shown_name(op, _LONGEST_NAME) for op in ops[:_NAMED])
    return f"{len(ops)}: {shown}" + (", ..." if len(ops) > _NAMED else "")


def _entries(path: Path) -> list[Any]:
    """What a file lists."""
    try:
        if not path.is_file() and path.exists():
            raise ResultsError(f"{path}: is no file")
        if path.stat().st_size > _LARGEST:
            raise ResultsError(f"{path}: is larger than {_LARGEST:,} bytes")
        data = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ResultsError(f"{path}: is no JSON: {error}") from None
    return data if isinstance(data, list) else [data]


def _result(path: Path, at: int, entry: Any) -> Result:
    try:
        found = msgspec.convert(entry, Result)
    except (msgspec.ValidationError, RecursionError) as error:
        what, _, where = str(error).partition(" - at `$")
        place = f"[{at}]{where.rstrip('`')}"
        raise ResultsError(f"{path}: holds no results: {place}: {what[:1].lower()}{what[1:]}") from None
    if math.isnan(found.median_us) and not found.error:
        raise ResultsError(f"{path}: holds no results: [{at}] has neither a median_us nor an error")
    return found
