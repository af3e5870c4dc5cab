"""By how much a number may differ from TraceLens's: what its timestamps in float64 lose, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from parity.comparing import DETAILS, EXACT, PER_INTERVAL_US, SHEETS, Row, Tolerance, parsed

Rows = Sequence[Mapping[str, str]]


def tolerances(reference: Mapping[str, Rows], below: Callable[[int], int], events: int) -> dict[str, Tolerance]:
    """The tolerance of each table of a trace.

    Args:
        reference: TraceLens's tables.
        below: number of linked GPU events in the subtree of a uid.
        events: number of GPU events of the trace.
    """
    found: dict[str, Tolerance] = {name: _of_durations(_total_us(reference)) for name in reference}
    found["gpu_timeline"] = _of_timeline(events)
    calls = _Calls(reference.get("ops_unique_args", ()), below)
    for name, key in (
        ("ops_unique_args", "ex_UID"),
        ("ops_summary", "name"),
        ("ops_summary_by_category", "op category"),
    ):
        if name in reference:
            found[name] = _of_calls(reference[name], calls, key)
    for name in reference:
        if name in SHEETS or name == "unified_perf_summary":
            found[name] = _of_costs(reference[name])
    return found


def _total_us(reference: Mapping[str, Rows]) -> float:
    times = [1000 * float(row["time ms"]) for row in reference["gpu_timeline"] if row["type"] == "total_time"]
    return min(times, default=1.0)


def _of_timeline(events: int) -> Tolerance:
    def tolerance(column: str, row: Row) -> float:
        us = events * PER_INTERVAL_US
        if column == "percent":
            total_ms = float(row["time ms"]) / (float(row["percent"]) / 100) if float(row["percent"]) else 1.0
            return 200 * us / 1000 / total_ms
        return us / 1000

    return tolerance


def _of_durations(total_us: float) -> Tolerance:
    """Durations are as the trace has them; only the total time comes from timestamps."""

    def tolerance(column: str, row: Row) -> float:
        return max(EXACT, 100 * PER_INTERVAL_US / total_us) if "percent of total" in column.lower() else EXACT

    return tolerance


class _Calls:
    """Intervals that the times in a row are made of: in one call, and in all calls of the row."""

    def __init__(self, unique_args: Rows, below: Callable[[int], int]) -> None:
        self._per_call: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._in_all: dict[tuple[str, str, str], tuple[int, int]] = {}
        for row in unique_args:
            uid, calls = int(row["ex_UID"]), int(row["operation_count"])
            direct = len(parsed(row["kernel_details_summary"]))
            one = (direct, max(direct, below(uid)))
            for column in ("ex_UID", "name", "op category"):
                key = (column, row[column], row.get("is_recompute", ""))
                most, every = self._per_call.get(key, (0, 0)), self._in_all.get(key, (0, 0))
                self._per_call[key] = (max(most[0], one[0]), max(most[1], one[1]))
                self._in_all[key] = (every[0] + one[0] * calls, every[1] + one[1] * calls)

    def per_call(self, key: str, row: Row, subtree: bool) -> int:
        return self._per_call[key, row[key], row.get("is_recompute", "")][subtree]

    def in_all(self, key: str, row: Row, subtree: bool) -> int:
        return self._in_all[key, row[key], row.get("is_recompute", "")][subtree]


def _of_calls(rows: Rows, calls: _Calls, key: str) -> Tolerance:
    time = "total_direct_kernel_time_ms" if "total_direct_kernel_time_ms" in rows[0] else "total_direct_kernel_time_sum"
    total_us = sum(float(row[time]) for row in rows) * (1000 if time.endswith("_ms") else 1)
    intervals = sum(calls.in_all(key, row, False) for row in rows)

    def tolerance(column: str, row: Row) -> float:
        subtree = "subtree" in column
        if column == "Percentage (%)":
            return 100 * PER_INTERVAL_US * (calls.in_all(key, row, False) + intervals) / total_us
        if column == "Cumulative Percentage (%)":
            return 200 * PER_INTERVAL_US * intervals / total_us
        if column == "first_occurrence_time":
            return 2 * PER_INTERVAL_US
        if column.endswith("_sum"):
            return PER_INTERVAL_US * calls.in_all(key, row, subtree)
        if column.endswith("_ms"):
            return PER_INTERVAL_US * calls.in_all(key, row, subtree) / 1000
        if column.startswith("total_"):
            # A standard deviation moves by at most twice what each value does.
            return PER_INTERVAL_US * calls.per_call(key, row, subtree) * (2 if column.endswith("_std") else 1)
        return EXACT

    return tolerance


def _of_costs(rows: Rows) -> Tolerance:
    """Busy times are lengths of unions; rates, which are work by time, differ by as much in proportion.

    Work, and what the arguments say, is exact.
    """
    per_call = {id(row): PER_INTERVAL_US * _kernels(row) for row in rows}
    of_row = {id(row): per_call[id(row)] * int(row.get("name_count") or row["operation_count"]) for row in rows}
    every, total_us = sum(of_row.values()), sum(float(row["Kernel Time (µs)_sum"]) for row in rows)

    def tolerance(column: str, row: Row) -> float:
        us, (of, _, statistic) = per_call[id(row)], column.rpartition("_")
        if column == "Percentage (%)":
            return 100 * (of_row[id(row)] + every) / total_us
        if column == "Cumulative Percentage (%)":
            return 200 * every / total_us
        if of == "Kernel Time (µs)":
            return of_row[id(row)] if statistic == "sum" else us * (2 if statistic == "std" else 1)
        if of in ("TB/s", "TFLOPS/s", "Pct Roofline"):
            least, most = float(row["Kernel Time (µs)_min"]), row[f"{of}_max"]
            return float(most or 0) * us / (least - us) * (2 if statistic == "std" else 1) if least > us else 0.0
        return EXACT if "duration_us" in column or "kernel_details" in column else 0.0

    return tolerance


def _kernels(row: Row) -> int:
    return max(1, *(len(parsed(row[column])) for column in DETAILS if row.get(column)))
