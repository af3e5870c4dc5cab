"""A report of Nsight Systems, as `nsys export --type sqlite` writes it, as events in the format of PyTorch's profiler.

Times are nanoseconds. A global id holds process and thread: `id >> 24 & 0xFFFFFF` and `id & 0xFFFFFF`. Each process
that used a GPU is a rank, numbered by its first device. Source of tables, columns and numbers: "SQLite Schema
Reference" of the User Guide of Nsight Systems, and the ENUM tables of exported files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tracelens_graph.errors import NotATraceError
from tracelens_graph.loaders.databases import Database, quoted
from tracelens_graph.loaders.nsys.ranges import range_event
from tracelens_graph.loaders.translated import trace_text

_PID, _TID = "(({0} >> 24) & 0xFFFFFF)", "({0} & 0xFFFFFF)"
_NO_STREAM = "NULLIF(streamId, 4294967295)"

_MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
    11: "HtoD", 12: "DtoH", 13: "DtoD",
}  # fmt: skip
_SYNCHRONISATIONS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}


def _case(column: str, words: dict[int, str], otherwise: str) -> str:
    """SQL for the word of a number."""
    return f"CASE {column} {' '.join(f'WHEN {k} THEN {chr(39)}{w}{chr(39)}' for k, w in words.items())} ELSE '{otherwise}' END"


def _text(column: str) -> str:
    return f"(SELECT value FROM temp.texts WHERE id = {column})"


class _Table(NamedTuple):
    """How rows of a table become events.

    Attributes:
        category: SQL for the category.
        names: SQL for the name, by the columns that it needs; the first whose columns are there counts.
        is_host: whether its rows are calls of a thread; else they are work on a stream.
        arguments: key in `args` -> SQL, each left out where a column of it is missing.
    """

    name: str
    category: str
    names: tuple[tuple[tuple[str, ...], str], ...]
    is_host: bool
    arguments: dict[str, str]


_ON_GPU = {"device": "deviceId", "context": "contextId", "stream": "streamId", "correlation": "correlationId"}
_TABLES = (
    _Table(
        "CUPTI_ACTIVITY_KIND_KERNEL", "'kernel'",
        ((("demangledName",), _text("demangledName")), (("shortName",), _text("shortName"))), False,
        _ON_GPU | {
            "registers per thread": "registersPerThread",
            "shared memory": "staticSharedMemory + dynamicSharedMemory",
            "grid": "json_array(gridX, gridY, gridZ)", "block": "json_array(blockX, blockY, blockZ)",
            "graph id": "graphId", "graph node id": "graphNodeId",
        },
    ),
    _Table(
        "CUPTI_ACTIVITY_KIND_MEMCPY", "'gpu_memcpy'",
        (
            (("srcKind", "dstKind"), f"'Memcpy ' || {_case('copyKind', _COPIES, 'unknown')} || ' (' || "
             f"{_case('srcKind', _MEMORY, 'Unknown')} || ' -> ' || {_case('dstKind', _MEMORY, 'Unknown')} || ')'"),
            ((), f"'Memcpy ' || {_case('copyKind', _COPIES, 'unknown')}"),
        ), False,
        _ON_GPU | {"bytes": "bytes", "graph node id": "graphNodeId"},
    ),
    _Table(
        "CUPTI_ACTIVITY_KIND_MEMSET", "'gpu_memset'",
        ((("memKind",), f"'Memset (' || {_case('memKind', _MEMORY, 'Unknown')} || ')'"), ((), "'Memset (Unknown)'")),
        False, _ON_GPU | {"bytes": "bytes", "graph node id": "graphNodeId"},
    ),
    _Table(
        "CUPTI_ACTIVITY_KIND_RUNTIME", f"CASE WHEN {_text('nameId')} LIKE 'cuda%' THEN 'cuda_runtime' ELSE 'cuda_driver' END",
        ((("nameId",), _text("nameId")),), True, {"correlation": "correlationId", "returned": "NULLIF(returnValue, 0)"},
    ),
    _Table("OSRT_API", "'cuda_runtime'", ((("nameId",), _text("nameId")),), True, {"returned": "NULLIF(returnValue, 0)"}),
    _Table(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "'cuda_sync'",
        (((), _case("syncType", _SYNCHRONISATIONS, "Synchronization")),), False,
        _ON_GPU | {
            "device": "deviceId",
            "cuda_sync_kind": _case("syncType", _SYNCHRONISATIONS, "Synchronization"),
            "stream": f"COALESCE({_NO_STREAM}, -1)", "wait_on_cuda_event_id": "eventId",
            "wait_on_stream": "COALESCE((SELECT stream FROM temp.recorded WHERE id = eventSyncId), -1)",
            "wait_on_cuda_event_record_corr_id": "COALESCE((SELECT correlation FROM temp.recorded WHERE id = eventSyncId), -1)",
        },
    ),
)  # fmt: skip
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_GPU_TABLES = [table.name for table in _TABLES if not table.is_host and table.category != "'cuda_sync'"]
_APART = 10**10
"""More than any number of a launch, which has 32 bits."""
_VERSION = re.compile(r"_v[0-9]+$")
_COLUMN = re.compile(r"\b[a-z]+(?:[A-Z][A-Za-z]*)\b|\bbytes\b")
_DEVICE = {
    "name": "name", "totalGlobalMem": "totalMemory", "computeMajor": "computeMajor", "computeMinor": "computeMinor",
    "numSms": "smCount", "sharedMemPerBlock": "maxShmemPerBlock", "regsPerMultiprocessor": "maxRegistersPerSm",
    "warpSize": "threadsPerWarp", "sharedMemPerMultiprocessor": "maxShmemPerSm", "memoryBandwidth": "memoryBandwidth",
    "clockRate": "clockRate",
}  # fmt: skip
"""Key among the properties of a device in Kineto traces, or our own -> column of TARGET_INFO_GPU."""


def is_report(database: Database) -> bool:
    """Whether a database is the export of a report of Nsight Systems."""
    return "StringIds" in database.columns and ("META_DATA_EXPORT" in database.columns or "NVTX_EVENTS" in database.columns)


def translated(database: Database) -> Iterator[bytes]:
    """The text of a Kineto trace that says what a report says.

    Args:
        database: the export of a report.

    Raises:
        NotATraceError: nothing of it can be drawn over time.
    """
    if not any(database.has(table.name, "start", "end") for table in _TABLES) and not database.has("NVTX_EVENTS", "start"):
        raise NotATraceError(
            f"{database.name}: is a report of Nsight Systems without kernels, calls or ranges: record with --trace=cuda,nvtx"
        )
    _make_texts(database)
    ranks = _ranks(database)
    yield from trace_text(_beside(database), _events(database, ranks))


def _make_texts(database: Database) -> None:
    """Temporary tables: texts by id, and recorded CUDA events."""
    run = database.connection
    run.execute("CREATE TEMP TABLE texts (id INTEGER PRIMARY KEY, value TEXT)")
    if database.has("StringIds", "id", "value"):
        rows = database.rows("SELECT id, value FROM StringIds")
        run.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", ((i, _VERSION.sub("", str(v))) for i, v in rows))
    run.execute("CREATE TEMP TABLE recorded (id INTEGER PRIMARY KEY, stream INTEGER, correlation INTEGER)")
    events = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
    if database.has(events, "eventSyncId", "streamId", "correlationId"):
        run.execute(f"INSERT OR IGNORE INTO recorded SELECT eventSyncId, streamId, correlationId FROM {events}")


def _ranks(database: Database) -> dict[int, int]:
    """Process -> rank, of processes that used a GPU; empty where there is one only."""
    first: dict[int, tuple[int, int]] = {}
    for table in _GPU_TABLES:
        if database.has(table, "globalPid", "deviceId"):
            pid = _PID.format("globalPid")
            for process, device in database.rows(f"SELECT {pid}, MIN(deviceId) FROM {table} GROUP BY 1"):
                first[process] = min(first.get(process, (device, process)), (device, process))
    return {process: rank for rank, process in enumerate(sorted(first, key=first.__getitem__))} if len(first) > 1 else {}


def _beside(database: Database) -> dict[str, Any]:
    beside: dict[str, Any] = {"schemaVersion": 1}
    start = "TARGET_INFO_SESSION_START_TIME"
    if database.has(start, "utcEpochNs"):
        clock = "systemClockNs" if database.has(start, "systemClockNs") else "0"
        beside["baseTimeNanoseconds"] = next(database.rows(f"SELECT utcEpochNs - COALESCE({clock}, 0) FROM {start}"))[0]
    if database.has("META_DATA_EXPORT", "name", "value"):
        versions = dict(database.rows("SELECT name, value FROM META_DATA_EXPORT"))
        beside["nsys_version"] = versions.get("EXPORT_PRODUCT_VERSION", "")
    if database.has("TARGET_INFO_GPU", "id", "name"):
        known = {key: column for key, column in _DEVICE.items() if database.has("TARGET_INFO_GPU", column)}
        rows = database.rows(f"SELECT id, {', '.join(known.values())} FROM TARGET_INFO_GPU ORDER BY id")
        beside["deviceProperties"] = [dict(zip(("id", *known), row, strict=True)) for row in rows]
    return beside


def _events(database: Database, ranks: dict[int, int]) -> Iterator[str]:
    for table in _TABLES:
        if database.has(table.name, "start", "end"):
            yield from _column(database, _statement(table, database.columns[table.name], ranks))
    if database.has("NVTX_EVENTS", "start", "end", "globalTid"):
        yield from _ranges(database, ranks)
    yield from _names(database)


def _statement(table: _Table, columns: set[str], ranks: dict[int, int]) -> str:
    """The statement whose rows are the events of a table as JSON."""
    def known(sql: str) -> bool:
        return {word for word in _COLUMN.findall(sql) if word not in ("json_array",)} <= columns

    name = next(sql for needed, sql in table.names if columns.issuperset(needed))
    pid = _PID.format("globalTid" if table.is_host else "globalPid")
    arguments = {key: sql for key, sql in table.arguments.items() if known(sql)}
    if ranks:
        # Processes count their launches each by itself. They are kept apart as in files that TraceFuse writes.
        arguments["rank"] = rank = f"CASE {pid} {' '.join(f'WHEN {p} THEN {r}' for p, r in ranks.items())} END"
        if "correlation" in arguments:
            arguments["correlation"] = f"correlationId + {_APART} * COALESCE({rank}, {len(ranks)})"
    where = (pid, _TID.format("globalTid")) if table.is_host else ("deviceId", "streamId")
    pairs = ", ".join(f"'{key}', {sql}" for key, sql in arguments.items())
    return (
        f"SELECT json_object('ph', 'X', 'cat', {table.category}, 'name', {name}, 'pid', {where[0]}, 'tid', {where[1]}, "
        f"'ts', start / 1000.0, 'dur', (end - start) / 1000.0, 'args', json_object({pairs})) FROM {quoted(table.name)}"
    )


def _ranges(database: Database, ranks: dict[int, int]) -> Iterator[str]:
    columns = database.columns["NVTX_EVENTS"]
    text = "COALESCE(text, " + _text("textId") + ")" if "textId" in columns else "text"
    domains = {}
    rows = database.rows(
        f"SELECT start, end, {_PID.format('globalTid')}, {_TID.format('globalTid')}, {text}, eventType, domainId "
        "FROM NVTX_EVENTS"
    )
    encode = msgspec.json.encode
    for start, end, pid, tid, text_, kind, domain in rows:
        event = range_event(text_)
        if event is None or end is None:
            continue
        if ranks:
            event["args"]["rank"] = ranks.get(pid)
        event |= {"ph": "X", "pid": pid, "tid": tid, "ts": start / 1000, "dur": (end - start) / 1000}
        yield encode(event).decode()


def _names(database: Database) -> Iterator[str]:
    """Names of processes and threads, of those that PyTorch's profiler would name."""
    if database.has("PROCESSES", "pid", "name"):
        yield from _column(
            database, "SELECT json_object('ph', 'M', 'name', 'process_name', 'pid', pid, 'tid', 0, 'args', "
            "json_object('name', name)) FROM PROCESSES",
        )
    if database.has("ThreadNames", "nameId", "globalTid"):
        yield from _column(
            database, f"SELECT json_object('ph', 'M', 'name', 'thread_name', 'pid', {_PID.format('globalTid')}, 'tid', "
            f"{_TID.format('globalTid')}, 'args', json_object('name', {_text('nameId')})) FROM ThreadNames",
        )


def _column(database: Database, statement: str) -> Iterator[str]:
    return (row[0] for row in database.rows(statement))
