"""A database of rocprofv3 (`rocpd`, ROCm 7), in the words of PyTorch's profiler.

Names of tables end with the id of a process or node. Times and places stand in the rows themselves (schema 3), or in
`rocpd_timestamp` and `rocpd_track` (schema 4). Source: `source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql` of
rocprofiler-sdk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from tracelens_graph.loaders.databases import Database, event_rows, quoted
from tracelens_graph.loaders.ranges import range_event
from tracelens_graph.loaders.rocprof.names import COPY_NAME, is_range
from tracelens_graph.loaders.translated import trace_text

_SUFFIX = re.compile(r"(rocpd_(?:string|region|kernel_dispatch|memory_copy))(_?[0-9A-Za-z_]*)")


def is_report(database: Database) -> bool:
    """Whether a database is one of rocprofv3."""
    return bool(_sets(database))


def translated(database: Database) -> Iterator[bytes]:
    """The text of the trace that says what a database says."""
    events = (event for suffix in _sets(database) for event in _events(database, suffix))
    return trace_text({"schemaVersion": 1, "recorded_by": "rocprofv3"}, events)


def _sets(database: Database) -> list[str]:
    """What the names of each set of tables end with."""
    found = (_SUFFIX.fullmatch(table) for table in database.columns)
    return sorted({one[2] for one in found if one and database.has(f"rocpd_string{one[2]}", "id", "string")
                   and one[1] != "rocpd_string" and "event_id" in database.columns[one[0]]})  # fmt: skip


def _events(database: Database, suffix: str) -> Iterator[str]:
    def table(name: str) -> str:
        return quoted(f"rocpd_{name}{suffix}")

    def looked_up(name: str, column: str, key: str) -> str:
        return f"(SELECT {column} FROM {table(name)} WHERE id = {key})"

    def has(name: str, *columns: str) -> bool:
        return database.has(f"rocpd_{name}{suffix}", *columns)

    for name in ("kernel_dispatch", "memory_copy", "region"):
        if not has(name):
            continue
        apart = has(name, "start_id", "track_id")
        if not apart and not has(name, "start", "end"):
            continue
        start, end = (looked_up("timestamp", "value", "start_id"), looked_up("timestamp", "value", "end_id")) if apart else ("start", '"end"')

        def place(column: str) -> str:
            return looked_up("track", column, "track_id") if apart else column

        agent = place("agent_id") if apart or has(name, "agent_id") else "COALESCE(dst_agent_id, src_agent_id)"
        if name == "memory_copy":
            # A copy is the work of the GPU that takes part in it.
            gpu = f"(SELECT id FROM {table('info_agent')} WHERE id IN (dst_agent_id, src_agent_id) AND type = 'GPU' LIMIT 1)"
            agent = gpu if has("info_agent", "type") and has(name, "dst_agent_id", "src_agent_id") else agent
        device = f"COALESCE({looked_up('info_agent', 'type_index', agent)}, {agent})" if has("info_agent", "type_index") else agent
        stack = looked_up("event", "stack_id", "event_id") if has("event", "stack_id") else "NULL"
        stream = f"COALESCE({place('stream_id')}, {place('queue_id')})"
        pid = f"COALESCE({looked_up('info_process', 'pid', place('pid'))}, {place('pid')})" if has("info_process", "pid") else place("pid")
        tid = f"COALESCE({looked_up('info_thread', 'tid', place('tid'))}, {place('tid')})" if has("info_thread", "tid") else place("tid")
        on_gpu = {"device": device, "stream": stream, "correlation": f"NULLIF({stack}, 0)"}
        text = looked_up("string", "string", "name_id")
        if name == "kernel_dispatch":
            on_gpu["block"] = "json_array(workgroup_size_x, workgroup_size_y, workgroup_size_z)"
            on_gpu["grid"] = "json_array(" + ", ".join(f"grid_size_{x} / MAX(workgroup_size_{x}, 1)" for x in "xyz") + ")"
            symbol = looked_up("info_kernel_symbol", "COALESCE(display_name, kernel_name)", "kernel_id")
            yield from database.texts(event_rows(
                table(name), category="'kernel'", name=f"COALESCE({symbol}, 'kernel ' || kernel_id)", pid=device, tid=stream,
                arguments=on_gpu, start=start, end=end,
            ))  # fmt: skip
        elif name == "memory_copy":
            yield from database.texts(event_rows(
                table(name), category="'gpu_memcpy'", name=COPY_NAME.format(text), pid=device, tid=stream,
                arguments=on_gpu | {"bytes": "size"}, start=start, end=end,
            ))  # fmt: skip
        else:
            category = looked_up("string", "string", looked_up("event", "category_id", "event_id"))
            message = f"json_extract({looked_up('event', 'extdata', 'event_id')}, '$.message')" if has("event", "extdata") else "NULL"
            rows = database.rows(f"SELECT {pid}, {tid}, {start}, {end}, {text}, {category}, {message}, {stack} FROM {table(name)}")
            for process, thread, begin, finish, called, kind, said, correlation in rows:
                if is_range(kind or ""):
                    event = range_event(said or called)
                else:
                    event = {"cat": "hip_runtime", "name": called, "args": {"correlation": correlation}}
                if event:
                    event |= {"ph": "X", "pid": process, "tid": thread, "ts": begin / 1000, "dur": (finish - begin) / 1000}
                    yield msgspec.json.encode(event).decode()
