"""A report of Nsight Systems, as `nsys export --type sqlite` writes it, in the words of PyTorch's profiler.

Times are nanoseconds. A global id holds process and thread: `id >> 24 & 0xFFFFFF` and `id & 0xFFFFFF`. Each process
that used a GPU is a rank, numbered by its first device. Source of tables, columns and numbers: "SQLite Schema
Reference" in the User Guide of Nsight Systems, and the ENUM tables of exported files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.frameworks import NSYS
from tracelens_graph.loaders.databases import Database, case, event_rows, time_in
from tracelens_graph.loaders.nsys import samples
from tracelens_graph.loaders.ranges import NO_END, range_event
from tracelens_graph.loaders.translated import APART, ranks_of, timed, trace_text

_MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
    11: "HtoD", 12: "DtoH", 13: "DtoD",
}  # fmt: skip
_WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_COPY = case("copyKind", _COPIES, "'unknown'")
_FROM, _TO, _FILLED = (case(kind, _MEMORY, "'Unknown'") for kind in ("srcKind", "dstKind", "memKind"))
_WAIT = case("syncType", _WAITS, "'Synchronization'")


def _text(column: str) -> str:
    return f"(SELECT value FROM temp.texts WHERE id = {column})"


def _recorded(column: str) -> str:
    """SQL for what is known of the CUDA event that a synchronisation waited for."""
    return f"COALESCE((SELECT {column} FROM temp.recorded WHERE id = eventSyncId), -1)"


class _Table(NamedTuple):
    """How rows of a table become events.

    Attributes:
        category: SQL for the category.
        names: SQL for the name, or columns of the ids of texts; the first whose columns are there counts.
        is_host: whether its rows are calls of a thread; else they are work on a stream.
        arguments: key -> SQL, left out where one of its columns is missing.
        device: SQL for the device, as `names`.
    """

    name: str
    category: str
    names: tuple[str, ...]
    is_host: bool
    arguments: dict[str, str]
    device: tuple[str, ...] = ("deviceId",)


class Rows(NamedTuple):
    """The rows of a table as events: arguments of `event_rows`, but that the name may be a column of ids of texts."""

    source: str
    category: str
    name: str
    pid: str
    tid: str
    arguments: dict[str, str]


_ON_GPU = {"context": "contextId", "stream": "streamId", "correlation": "correlationId"}
_TABLES = (
    _Table(
        "CUPTI_ACTIVITY_KIND_KERNEL", "'kernel'", ("demangledName", "shortName"), False,
        _ON_GPU | {
            "registers per thread": "registersPerThread", "shared memory": "staticSharedMemory + dynamicSharedMemory",
            "grid": "json_array(gridX, gridY, gridZ)", "block": "json_array(blockX, blockY, blockZ)",
            "graph id": "graphId", "graph node id": "graphNodeId",
        },
    ),
    _Table(
        "CUPTI_ACTIVITY_KIND_MEMCPY", "'gpu_memcpy'",
        (f"'Memcpy ' || {_COPY} || ' (' || {_FROM} || ' -> ' || {_TO} || ')'", f"'Memcpy ' || {_COPY}"), False,
        _ON_GPU | {"bytes": "bytes", "graph node id": "graphNodeId"},
    ),
    _Table(
        "CUPTI_ACTIVITY_KIND_MEMSET", "'gpu_memset'", (f"'Memset (' || {_FILLED} || ')'", "'Memset (Unknown)'"), False,
        _ON_GPU | {"bytes": "bytes", "graph node id": "graphNodeId"},
    ),
    _Table(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        f"CASE WHEN {_text('nameId')} LIKE 'cuda%' THEN 'cuda_runtime' ELSE 'cuda_driver' END",
        ("nameId",), True,
        {"correlation": "correlationId", "returned": "NULLIF(returnValue, 0)"},
    ),
    _Table("OSRT_API", "'cuda_runtime'", ("nameId",), True, {"returned": "NULLIF(returnValue, 0)"}),
    _Table(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "'cuda_sync'", (_WAIT,), False,
        _ON_GPU | {
            "cuda_sync_kind": _WAIT, "stream": "COALESCE(NULLIF(streamId, 4294967295), -1)",
            "wait_on_cuda_event_id": "eventId", "wait_on_stream": _recorded("stream"),
            "wait_on_cuda_event_record_corr_id": _recorded("correlation"),
        },
        # Here CUPTI numbers devices as the process does, to which the first that it may use is 0.
        ("COALESCE((SELECT device FROM temp.contexts WHERE process = globalPid AND context = contextId), deviceId)",
         "deviceId"),
    ),
)  # fmt: skip
_RANGES, _GENERIC = "NVTX_EVENTS", "GENERIC_EVENTS"
_HOST_TABLES = [table.name for table in _TABLES if table.is_host]
_GPU_TABLES = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")]
_COLUMN = re.compile(r"\b(?:[a-z]+[A-Z][A-Za-z]*|bytes)\b")
_PROCESS = "globalPid >> 24 & 0xFFFFFF"
_VERSION = re.compile(r"_v[0-9]+$")
"""End of the name of a call: the version of its interface."""
_DEVICE = {
    "name": "name", "totalGlobalMem": "totalMemory", "computeMajor": "computeMajor", "computeMinor": "computeMinor",
    "numSms": "smCount", "sharedMemPerBlock": "maxShmemPerBlock", "regsPerMultiprocessor": "maxRegistersPerSm",
    "warpSize": "threadsPerWarp",
}  # fmt: skip
"""Key among the properties of a device in traces of PyTorch -> column of TARGET_INFO_GPU."""


def is_report(database: Database) -> bool:
    """Whether a database is an exported report of Nsight Systems."""
    return database.has("StringIds", "id", "value") and not database.columns.keys().isdisjoint(
        {"META_DATA_EXPORT", "META_DATA_CAPTURE", _RANGES, *(table.name for table in _TABLES)}
    )


def translated(database: Database) -> Iterator[bytes]:
    """The text of the trace that says what a report says.

    Raises:
        NotATraceError: the report holds nothing with a begin and an end.
        TraceError: its kernels cannot be read.
    """
    beside, parts = contents(database)
    return trace_text(beside, chain.from_iterable(texts for _, texts in parts))


def contents(database: Database) -> tuple[dict[str, Any], Iterator[tuple[Rows | None, Iterator[str]]]]:
    """What stands beside the events, and the events as JSON, with the rows that they are where rows are all there is.

    Raises:
        NotATraceError: the report holds nothing with a begin and an end.
        TraceError: its kernels cannot be read.
    """
    if not any(database.has(table, "start", "end") for table in (_RANGES, *(table.name for table in _TABLES))):
        raise NotATraceError(
            f"{database.name}: is a report of Nsight Systems without kernels, calls and ranges; record it with"
            " nsys profile --trace=cuda,nvtx"
        )
    ranks = ranks_in(database)
    _check_kernels(database, ranks)
    _make_texts(database)
    beside, alone = _beside(database), ""
    if database.rank is not None:  # rows of its process are read as those of a report that holds no other
        (process,) = (process for process, rank in ranks.items() if rank == database.rank)
        alone, ranks = f" WHERE {{}} >> 24 & 0xFFFFFF = {process}", {}
        # Ranks of one recording are of one machine, and have one clock.
        beside |= {"distributedInfo": {"rank": database.rank}, "host_name": os.path.realpath(database.name)}
    return beside, _parts(database, ranks, alone)


def nowhere(database: Database) -> int:
    """How many calls and ranges are of processes that used no GPU, where several did."""
    known = ", ".join(map(str, ranks_in(database)))
    tables = [table for table in (_RANGES, *_HOST_TABLES) if database.has(table, "globalTid")]
    found = (f"SELECT COUNT(*) FROM {one} WHERE globalTid >> 24 & 0xFFFFFF NOT IN ({known})" for one in tables)
    return sum(next(database.rows(one))[0] for one in found)


def _check_kernels(database: Database, ranks: dict[int, int]) -> None:
    """Raise TraceError for kernels that cannot be read: without them all idle time would have a wrong reason."""
    table = _TABLES[0]
    if next(database.rows(f"SELECT 1 FROM sqlite_master WHERE type = 'view' AND name = '{table.name}'"), None):
        why = "is a view, which is not read"
    elif table.name in database.columns and (lacking := _lacking(database, table, ranks)):
        (number,) = next(database.rows(f"SELECT COUNT(*) FROM {table.name}"))
        why = f"holds {number:,} kernels without {', '.join(lacking)}"
    else:
        return
    raise TraceError(f"{database.name}: {table.name} {why}: export the report again with nsys export --type sqlite")


def _lacking(database: Database, table: _Table, ranks: dict[int, int]) -> list[str]:
    """Columns without which the rows of a table are not events."""
    needed = (
        ["start", "end", "globalTid"] if table.is_host else ["start", "end", "streamId", *["globalPid"] * bool(ranks)]
    )
    return [column for column in needed if not database.has(table.name, column)]


def _make_texts(database: Database) -> None:
    """Temporary tables: texts by id, recorded CUDA events, and the device of each context."""
    run = database.connection
    run.execute("CREATE TEMP TABLE texts (id INTEGER PRIMARY KEY, value TEXT)")
    rows = database.rows("SELECT id, value FROM StringIds WHERE typeof(id) = 'integer'")
    run.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", ((i, _VERSION.sub("", str(v))) for i, v in rows))
    run.execute("CREATE TEMP TABLE recorded (id INTEGER PRIMARY KEY, stream INTEGER, correlation INTEGER)")
    events = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
    if database.has(events, "eventSyncId", "streamId", "correlationId"):
        run.execute(f"INSERT OR IGNORE INTO recorded SELECT eventSyncId, streamId, correlationId FROM {events}")
    run.execute("CREATE TEMP TABLE contexts (process, context, device, PRIMARY KEY (process, context))")
    for table in _GPU_TABLES:
        if database.has(table, "globalPid", "contextId", "deviceId"):
            found = f"SELECT globalPid, contextId, MIN(deviceId) FROM {table} GROUP BY 1, 2"
            run.execute(f"INSERT OR IGNORE INTO contexts {found}")


def ranks_in(database: Database) -> dict[int, int]:
    """Process -> rank, of processes that used a GPU; empty where there is one only."""
    tables = [table for table in _GPU_TABLES if database.has(table, "globalPid", "deviceId")]
    return ranks_of(
        (process, device)
        for table in tables
        for process, device in database.rows(f"SELECT {_PROCESS}, MIN(deviceId) FROM {table} GROUP BY 1")
    )


def _beside(database: Database) -> dict[str, Any]:
    """What stands beside the events: when the clock was zero, who wrote the file, devices."""
    beside: dict[str, Any] = {"schemaVersion": 1}
    start = "TARGET_INFO_SESSION_START_TIME"
    if database.has(start, "utcEpochNs"):
        clock = "systemClockNs" if database.has(start, "systemClockNs") else "0"
        beside["baseTimeNanoseconds"] = next(database.rows(f"SELECT utcEpochNs - COALESCE({clock}, 0) FROM {start}"))[0]
    versions = {}
    if database.has("META_DATA_EXPORT", "name", "value"):
        versions = dict(database.rows("SELECT name, value FROM META_DATA_EXPORT"))
    beside |= {"profiler": NSYS.profiler, "nsys_version": versions.get("EXPORT_PRODUCT_VERSION")}
    if database.has("TARGET_INFO_GPU", "id", "name"):
        known = {key: column for key, column in _DEVICE.items() if database.has("TARGET_INFO_GPU", column)}
        rows = database.rows(f"SELECT id, {', '.join(known.values())} FROM TARGET_INFO_GPU ORDER BY id")
        beside["deviceProperties"] = [dict(zip(("id", *known), row, strict=True)) for row in rows]
    return beside


def _parts(database: Database, ranks: dict[int, int], alone: str) -> Iterator[tuple[Rows | None, Iterator[str]]]:
    """The events; `alone` is SQL behind the name of a table that chooses rows, by the column of their process."""
    for table in _TABLES:
        if table.name in database.columns and _lacking(database, table, ranks):
            # Each of them counts as lost.
            event = msgspec.json.encode({"ph": "X", "cat": "cuda_runtime", "name": table.name, "ts": None}).decode()
            yield None, database.texts(f"SELECT '{event}' FROM {table.name}")
        elif table.name in database.columns:
            rows = _rows(table, database.columns[table.name], ranks)
            rows = rows._replace(source=f"{table.name}{alone.format('globalTid' if table.is_host else 'globalPid')}")
            name = _text(rows.name) if rows.name.isidentifier() else rows.name
            yield rows, database.texts(event_rows(**rows._replace(name=name)._asdict()))
    yield None, _others(database, ranks, alone)


def _others(database: Database, ranks: dict[int, int], alone: str) -> Iterator[str]:
    of_thread, of_process = alone.format("globalTid"), alone.format("globalPid")
    held: dict[int, list[int]] = {}
    if database.has(_RANGES, "start", "end", "globalTid"):
        yield from (_text_of(event, ranks) for event in _ranges(database, of_thread, held))
    if samples.has_stacks(database):
        calls = [table for table in _HOST_TABLES if database.has(table, "start", "end", "globalTid")]
        yield from (_text_of(event, ranks) for event in samples.functions(database, of_thread, calls, held))
    correlation = _correlation(_PROCESS, ranks)
    yield from (_text_of(event, {}) for event in samples.counters(database, of_process, correlation))
    if not alone and database.has(_GENERIC, "timestamp"):  # of no thread, and known by their source only
        counted = event_rows(
            _GENERIC, category="'generic event'", name="''", pid="0", tid="0", arguments={}, start="timestamp",
            end="timestamp",
        )  # fmt: skip
        yield from database.texts(counted)
    yield from _names(database, alone)


def _text_of(event: dict[str, Any], ranks: dict[int, int]) -> str:
    """An event as JSON, with its thread and rank."""
    start, end, thread = event.pop("start"), event.pop("end"), event.pop("globalTid", None)
    if thread is not None:
        event |= {"pid": thread >> 24 & 0xFFFFFF, "tid": thread & 0xFFFFFF}
    if ranks:
        event["args"]["rank"] = ranks.get(event.get("pid", -1))
    return msgspec.json.encode(event | timed(start, end)).decode()


def _correlation(process: str, ranks: dict[int, int]) -> str:
    """SQL for the number of a launch; each process counts its own by itself: kept apart as TraceFuse does."""
    return f"correlationId + {APART} * {case(process, ranks, str(len(ranks)))}" if ranks else "correlationId"


def _rows(table: _Table, columns: set[str], ranks: dict[int, int]) -> Rows:
    """The events of a table."""

    def first(choices: tuple[str, ...]) -> str:
        return next((sql for sql in choices if columns.issuperset(_COLUMN.findall(sql))), "NULL")

    arguments = {key: sql for key, sql in table.arguments.items() if columns.issuperset(_COLUMN.findall(sql))}
    if not table.is_host:
        arguments["device"] = first(table.device)
    process = _PROCESS.replace("Pid", "Tid") if table.is_host else _PROCESS
    if ranks:
        arguments["rank"] = case(process, ranks, "NULL")
        if "correlation" in arguments:
            arguments["correlation"] = _correlation(process, ranks)
    return Rows(
        table.name, table.category, first(table.names), arguments.get("device", process),
        "globalTid & 0xFFFFFF" if table.is_host else "streamId", arguments,
    )  # fmt: skip


def _ranges(database: Database, which: str, held: dict[int, list[int]]) -> Iterator[dict[str, Any]]:
    """The ranges that SQL chooses; `held` gets the begin and the end of ops and modules by thread."""
    columns = database.columns[_RANGES]
    texts = [column if column == "text" else _text(column) for column in ("text", "textId") if column in columns]
    begin = time_in("start")
    rows = database.rows(
        f'SELECT CAST({begin} AS INTEGER), CAST("end" AS INTEGER), globalTid, COALESCE({", ".join(texts)}, NULL) '
        f"FROM {_RANGES}{which}"
    )
    for start, end, thread, text in rows:
        event = range_event(text)
        if event is None:
            continue
        if start is None or end is None:  # it marks a moment, or was open when the recording began or ended
            event["cat"] = NO_END
            start = end = start or end or 0
        elif event["cat"] != "user_annotation":
            held.setdefault(thread, []).extend((start, end))
        yield event | {"start": start, "end": end, "globalTid": thread}


def _names(database: Database, alone: str) -> Iterator[str]:
    """Names of processes and threads."""
    for table, needed, what, thread, name in (
        ("PROCESSES", "pid", "process_name", "(pid << 24)", "name"),
        ("ThreadNames", "nameId", "thread_name", "globalTid", _text("nameId")),
    ):
        if database.has(table, needed):
            yield from database.texts(
                f"SELECT json_object('ph', 'M', 'name', '{what}', 'pid', {thread} >> 24 & 0xFFFFFF, 'tid', "
                f"{thread} & 0xFFFFFF, 'args', json_object('name', {name})) FROM {table}{alone.format(thread)}"
            )
