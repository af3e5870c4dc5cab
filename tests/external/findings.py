"""The findings that TraceLens's evaluation publishes beside its traces (`reference.md`), as tables of figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Cells = dict[str, str]

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_PEAK = re.compile(r"\*\*Peak ([^*]+)\*\*: ([\d.]+) (TB/s|TFLOPS)")


@dataclass(frozen=True)
class Finding:
    """What is said of an operation.

    Attributes:
        op: its name.
        dims: sizes of its first inputs.
        types: their types, as people write them.
        time_ms, percent_of_span: GPU time of all calls, and its share from the first to the last GPU event.
        calls: how many.
        intensity, percent_of_roof: operations per byte, and mean over calls; None where no model applies.
        bound: `compute` or `memory`; empty where no model applies.
        rate: of the device, that the percentage is of, TFLOP/s or TB/s.
    """

    op: str
    dims: list[list[int]]
    types: list[str]
    time_ms: float
    percent_of_span: float
    calls: int
    intensity: float | None
    percent_of_roof: float | None
    bound: str
    rate: float | None


def text_of(path: Path) -> str:
    """A page without its pictures, which are lines of base64."""
    return "\n".join(line for line in path.read_text().splitlines() if "base64" not in line)


def numbers(cell: str) -> list[float]:
    """The numbers in a cell."""
    return [float(one) for one in _NUMBER.findall(cell)]


def tables(text: str) -> Iterator[list[Cells]]:
    """The tables of a page, as rows by column."""
    for block in re.findall(r"(?:^\|.*\n)+", text + "\n", re.M):
        rows = [[cell.strip() for cell in re.sub(r"<!--.*", "", line).strip().strip("|").split("|")]
                for line in block.splitlines()]  # fmt: skip
        yield [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def findings(text: str) -> list[Finding]:
    """What a page says of operations."""
    rows = (row for table in tables(text) for row in table if "Operation" in row)
    return [_finding(row) for row in rows]


def _finding(row: Cells) -> Finding:
    shapes = re.findall(r"\(([\d,\s]+)\)\s*(\w+)", row["Args"])
    share = numbers(row["Efficiency"])
    return Finding(
        row["Operation"],
        [[int(size) for size in dims.split(",") if size.strip()] for dims, _ in shapes],
        [dtype for _, dtype in shapes],
        float(row["Time (ms)"]),
        float(row["%E2E"]),
        int(row["Count"]),
        *(numbers(row["FLOPS/Byte"])[:1] or [None]),
        share[0] if share else None,
        row["Bound"].removesuffix("-bound") if share else "",
        share[1] if share else None,
    )


def metrics(text: str) -> Cells:
    """The page's first table: a figure of the whole trace by its name."""
    return {row["Metric"]: row["Value"] for row in next(tables(text))}


def device_file(text: str) -> str:
    """The device that a page names, in TOML: its peaks, and the rate that its operations in fp32 are held against."""
    peaks = {name: float(rate) for name, rate, _ in _PEAK.findall(text)}
    fp32 = {one.rate for one in findings(text) if one.bound == "compute" and one.types[0] == "fp32"}
    figures = {
        "memory_bandwidth_gbps": 1000 * peaks["HBM BW"],
        **{f"matrix_{name.lower()}": rate for name, rate in re.findall(r"MAF \((\w+)\)\*\*: ([\d.]+)", text)},
        **dict.fromkeys(("matrix_fp32",) * len(fp32), next(iter(fp32), 0.0)),
    }
    lines = "\n".join(f"{name} = {value}" for name, value in figures.items())
    return f'name = "MI300X"\nachievable = true\n[[figures]]\ndocument = "reference.md"\n{lines}\n'
