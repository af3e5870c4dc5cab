"""A database of rocprofv3 (`rocpd`, ROCm 7), in the words of PyTorch's profiler.

Names of tables end with the id of a process or node. Times and places stand in the rows themselves (schema 3), or in
`rocpd_timestamp` and `rocpd_track` (schema 4). Source: `source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql` of
rocprofiler-sdk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tracelens_graph.frameworks import ROCPROF
from tracelens_graph.loaders.databases import Database, case, event_rows, quoted
from tracelens_graph.loaders.ranges import range_event
from tracelens_graph.loaders.translated import APART, ranks_of, timed, trace_text

_COPY_NAME = (
    "REPLACE(REPLACE(REPLACE(REPLACE(REPLACE({}, 'MEMORY_COPY_', 'Memcpy '), 'HOST_TO_DEVICE', 'HtoD'), "
    "'DEVICE_TO_HOST', 'DtoH'), 'DEVICE_TO_DEVICE', 'DtoD'), 'HOST_TO_HOST', 'HtoH')"
)
"""SQL for the name that PyTorch's profiler gives to a copy."""

_TABLE = re.compile(r"rocpd_(?:region|kernel_dispatch|memory_copy)(?P<end>_?[0-9A-Za-z_]*)")


def is_report(database: Database) -> bool:
    """Whether a database is one of rocprofv3."""
    return bool(_sets(database))


def is_range(kind: str) -> bool:
    """Whether a kind of records is of ranges that the program marked with roctx."""
    return kind.startswith("MARKER_CORE")


def translated(database: Database) -> Iterator[bytes]:
    """The text of the trace that says what a database says."""
    sets = [_Set(database, end) for end in _sets(database)]
    ranks = ranks_of(((one.end, pid), device) for one in sets for pid, device in one.users())
    events = (
        event for one in sets for event in one.events({pid: ranks[end, pid] for end, pid in ranks if end == one.end})
    )
    return trace_text({"schemaVersion": 1, "profiler": ROCPROF.profiler}, events)


def _sets(database: Database) -> list[str]:
    """What the names of the tables of each process end with."""
    found = {one["end"] for table in database.columns if (one := _TABLE.fullmatch(table))}
    return sorted(end for end in found if database.has(f"rocpd_string{end}", "id", "string"))


class _Set:
    """The tables of one process or node; methods give SQL."""

    def __init__(self, database: Database, end: str) -> None:
        self._database, self.end = database, end
        self._ranks: dict[int, int] = {}

    def users(self) -> Iterator[tuple[int, int]]:
        """Processes, and the first agent that each used; ids of rows."""
        for name in ("kernel_dispatch", "memory_copy"):
            agent = self._place(name, "agent_id" if name == "kernel_dispatch" else "dst_agent_id")
            if self._has(name) and (process := self._place(name, "pid")) != "NULL":
                yield from self._database.rows(f"SELECT {process}, MIN({agent}) FROM {self._table(name)} GROUP BY 1")

    def events(self, ranks: dict[int, int]) -> Iterator[str]:
        """The events in the tables, as JSON.

        Args:
            ranks: process, as in `users`, -> its rank; empty where there is one only.
        """
        self._ranks = ranks
        kernels, copies, regions = ("kernel_dispatch", "memory_copy", "region")
        if self._has_times(kernels):
            sizes = ", ".join(f"grid_size_{axis} / MAX(workgroup_size_{axis}, 1)" for axis in "xyz")
            symbol = self._looked_up("info_kernel_symbol", "COALESCE(display_name, kernel_name)", "kernel_id")
            yield from self._gpu_events(
                kernels, "'kernel'", f"COALESCE({symbol}, 'kernel ' || kernel_id)", self._place(kernels, "agent_id"),
                block="json_array(workgroup_size_x, workgroup_size_y, workgroup_size_z)", grid=f"json_array({sizes})",
            )  # fmt: skip
        if self._has_times(copies):
            # A copy is work of the GPU that takes part in it.
            gpu = f"FROM {self._table('info_agent')} WHERE id IN (dst_agent_id, src_agent_id) AND type = 'GPU'"
            name = _COPY_NAME.format(self._looked_up("string", "string", "name_id"))
            yield from self._gpu_events(copies, "'gpu_memcpy'", name, f"(SELECT MIN(id) {gpu})", bytes="size")
        if self._has_times(regions):
            yield from self._host_events(regions)

    def _gpu_events(self, name: str, category: str, called: str, agent: str, **arguments: str) -> Iterator[str]:
        device = f"COALESCE({self._looked_up('info_agent', 'type_index', agent)}, {agent}, -1)"
        stream = f"COALESCE({self._place(name, 'stream_id')}, {self._place(name, 'queue_id')}, -1)"
        start, end = self._times(name)
        arguments |= {"device": device, "stream": stream, "correlation": self._stack(name)}
        if self._ranks:
            arguments["rank"] = case(self._place(name, "pid"), self._ranks, "NULL")
        return self._database.texts(
            event_rows(
                self._table(name), category=category, name=called, pid=device, tid=stream, arguments=arguments,
                start=start, end=end,
            )
        )  # fmt: skip

    def _host_events(self, name: str) -> Iterator[str]:
        """Calls, and ranges that the program marked."""
        of_event = ("string", "string", self._looked_up("event", "category_id", "event_id"))
        message = f"json_extract({self._looked_up('event', 'extdata', 'event_id')}, '$.message')"
        columns = (
            self._numbered("info_process", "pid", self._place(name, "pid")),
            self._numbered("info_thread", "tid", self._place(name, "tid")),
            *self._times(name), self._looked_up("string", "string", "name_id"), self._looked_up(*of_event), message,
            self._stack(name), self._place(name, "pid"),
        )  # fmt: skip
        rows = self._database.rows(f"SELECT {', '.join(columns)} FROM {self._table(name)}")
        for pid, tid, start, end, called, kind, said, correlation, process in rows:
            call: dict[str, Any] = {"cat": "hip_runtime", "name": called or "", "args": {"correlation": correlation}}
            if event := range_event(said or called) if is_range(kind or "") else call:
                args = event["args"] | ({"rank": self._ranks.get(process)} if self._ranks else {})
                yield msgspec.json.encode(event | timed(start, end) | {"pid": pid, "tid": tid, "args": args}).decode()

    def _table(self, name: str) -> str:
        return quoted(f"rocpd_{name}{self.end}")

    def _has(self, name: str, *columns: str) -> bool:
        return self._database.has(f"rocpd_{name}{self.end}", *columns)

    def _looked_up(self, name: str, column: str, key: str) -> str:
        """A column of the row with an id; NULL where there is no such table."""
        return f"(SELECT {column} FROM {self._table(name)} WHERE id = {key})" if self._has(name) else "NULL"

    def _numbered(self, name: str, column: str, key: str) -> str:
        """As `_looked_up`, the id itself where nothing is found."""
        return f"COALESCE({self._looked_up(name, column, key)}, {key})"

    def _has_times(self, name: str) -> bool:
        return self._has(name, "start", "end") or (self._has(name, "start_id", "end_id") and self._has("timestamp"))

    def _times(self, name: str) -> tuple[str, str]:
        if self._has(name, "start", "end"):
            return "start", '"end"'
        return self._looked_up("timestamp", "value", "start_id"), self._looked_up("timestamp", "value", "end_id")

    def _place(self, name: str, column: str) -> str:
        """The process, thread, agent, queue or stream of a row."""
        if self._has(name, column):
            return f"{self._table(name)}.{column}"
        return self._looked_up("track", column, "track_id") if self._has(name, "track_id") else "NULL"

    def _stack(self, name: str) -> str:
        """What a call and the work that it launched have in common; kept apart for each rank."""
        stack = f"NULLIF({self._looked_up('event', 'stack_id', 'event_id')}, 0)"
        return f"{stack} + {APART} * {case(self._place(name, 'pid'), self._ranks, '0')}" if self._ranks else stack
