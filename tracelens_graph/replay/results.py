"""Results that programs wrote, as files or folders of them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tracelens_graph.errors import ResultsError
from tracelens_graph.replay.folder import INDEX
from tracelens_graph.replay.replay_plan import Recorded

_LARGEST = 64 << 20
"""Bytes of a file that is read."""
_OTHERS = ("operations.json", INDEX)
"""Files of a folder that hold something else."""
_Amount = Annotated[float, msgspec.Meta(ge=0)]
_USUAL = {"cudnn.allow_tf32": True, "float32_matmul_precision": "highest"}
"""Settings of PyTorch that are not off where nobody sets them."""


class Result(msgspec.Struct):
    """A result of a program; the names are those that `replay.program.measure` writes.

    Attributes:
        signature: its arguments; None for several operations in their order, which have none of their own.
        error: why there is none; empty if there is.
        library: version of CUDA or ROCm; empty where it is not known.
        settings: what PyTorch was set to, and modes of the call.
        driver: version of the driver and, where it is known, the clock: `580.65.06, 1980 MHz`.
        count: calls in the trace; 0 for sizes that the trace does not have.
        traced_us, total_us: GPU time below these calls in the trace: its median, and its sum.
        percent: this sum as share of the trace's GPU time.
        trace: name of the trace's file, and its part.
        largest_size: no size was above this; None if sizes are those of the trace.
    """

    op: str
    signature: Recorded | None = None
    device: str = ""
    torch: str = ""
    library: str | None = ""
    driver: str = ""
    settings: dict[str, Any] = {}
    median_us: Annotated[float, msgspec.Meta(gt=0)] = math.nan
    tflops: _Amount | None = None
    tbytes_per_s: _Amount | None = None
    traced_us: _Amount | None = None
    total_us: _Amount | None = None
    kernels: list[str] = []
    error: str = ""
    count: Annotated[int, msgspec.Meta(ge=0)] = 1
    percent: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    trace: str = ""
    largest_size: int | None = None

    @property
    def clock_mhz(self) -> float | None:
        """Clock of the device's processors right behind the measurement."""
        found = re.search(r", (\d+(?:\.\d+)?) MHz$", self.driver)
        return float(found[1]) if found and self.device != "cpu" else None

    @property
    def unusual(self) -> dict[str, Any]:
        """Settings that differ from PyTorch's own: programs write those that matter to their call, or all."""
        return {name: value for name, value in self.settings.items() if value != _USUAL.get(name, False)}

    @property
    def identity(self) -> str:
        """What distinguishes it from others of its file: operation, arguments, and how far they were shrunk."""
        return json.dumps([self.op, msgspec.to_builtins(self.signature), self.largest_size])


def read_results(where: Path) -> tuple[list[Result], list[str]]:
    """Results in a file, or in all files of results in a folder, by name; and why others cannot be read.

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
