"""The peak of memory in a sentence: units, devices, and what is not recorded."""

from __future__ import annotations

from typing import Any

import pytest

from tracelens_graph.reports.document import peaks
from tracelens_graph.tables.table import Table

MIB = 2**20


def summary(*rows: tuple[str, int, int | None]) -> Table:
    device, peak, reserved = zip(*rows, strict=True)
    columns: dict[str, Any] = {"device": device, "peak_bytes": peak, "peak_reserved_bytes": reserved}
    return Table("memory_summary", columns)


@pytest.mark.parametrize(
    ("peak", "reserved", "said"),
    [
        (2088508416, 2629828608, "1.95 of 2.45 GiB reserved"),
        (512 * MIB, 1024 * MIB, "0.50 of 1.00 GiB reserved"),
        (1536 * MIB, None, "1.50 GiB"),
        (1023, None, "1,023 B"),
        (0, 0, "0 of 0 B reserved"),
    ],
)
def test_both_figures_have_one_unit(peak: int, reserved: int | None, said: str) -> None:
    assert peaks(summary(("cuda:0", peak, reserved))) == [f"cuda:0: {said}"]


def test_the_host_is_told_of_only_where_there_is_no_gpu() -> None:
    cpu = ("cpu", 16, None)
    assert peaks(summary(("cuda:1", MIB, None), cpu)) == ["cuda:1: 1.00 MiB"]
    assert peaks(summary(cpu)) == ["cpu: 16 B"]
