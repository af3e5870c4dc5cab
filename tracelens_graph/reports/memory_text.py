"""The peak of memory in a sentence, for the first view of a report."""

from __future__ import annotations

from tracelens_graph.tables.table import Table

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def peaks(summary: Table) -> list[str]:
    """The peak of each GPU, of a trace without any that of the host: `cuda:0: 1.95 of 2.45 GiB reserved`.

    Args:
        summary: the table `memory_summary`.
    """
    rows = summary.records()
    of_gpus = [row for row in rows if row["device"] != "cpu"] or rows
    return [f"{row['device']}: {_peak(row['peak_bytes'], row['peak_reserved_bytes'])}" for row in of_gpus]


def _peak(allocated: int, reserved: int | None) -> str:
    power = min(max(max(allocated, reserved or 0).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    told = f"{allocated / 1024**power:,.{2 * (power > 0)}f}"
    if reserved is None:
        return f"{told} {_UNITS[power]}"
    return f"{told} of {reserved / 1024**power:,.{2 * (power > 0)}f} {_UNITS[power]} reserved"
