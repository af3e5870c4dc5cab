"""A database of rocmProfileData (`.rpd`), in the words of PyTorch's profiler.

Source: `rocpd_python/rocpd/schema.py` and `rpd_tracer` of rocmProfileData. Calls stand in `rocpd_api`, work of devices
in `rocpd_op`, which call made which work in `rocpd_api_ops`. A range of the user is a call named UserMarker.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tracelens_graph.frameworks import ROCPROF
from tracelens_graph.loaders.databases import Database, case, event_rows
from tracelens_graph.loaders.ranges import range_event
from tracelens_graph.loaders.translated import ranks_of, timed, trace_text

_MARKER = "UserMarker"


def _text(column: str) -> str:
    return f"(SELECT string FROM rocpd_string WHERE id = {column})"


_TYPE = _text("opType_id")
_CATEGORY = (
    f"CASE WHEN {_TYPE} LIKE 'Copy%' THEN 'gpu_memcpy' WHEN {_TYPE} LIKE 'Fill%' THEN 'gpu_memset' "
    f"WHEN {_TYPE} LIKE '%Barrier%' OR {_TYPE} LIKE '%Marker%' THEN 'cuda_sync' ELSE 'kernel' END"
)


def is_report(database: Database) -> bool:
    """Whether a database is one of rocmProfileData."""
    return database.has("rocpd_string", "id", "string") and (
        database.has("rocpd_op", "opType_id") or database.has("rocpd_api", "apiName_id")
    )


def translated(database: Database) -> Iterator[bytes]:
    """The text of the trace that says what a database says."""
    return trace_text({"schemaVersion": 1, "profiler": ROCPROF.profiler}, _events(database))


def _events(database: Database) -> Iterator[str]:
    run = database.connection
    run.execute("CREATE TEMP TABLE launched (op INTEGER PRIMARY KEY, call INTEGER)")
    if database.has("rocpd_api_ops", "api_id", "op_id"):
        run.execute("INSERT OR IGNORE INTO launched SELECT op_id, api_id FROM rocpd_api_ops")
    call = "(SELECT call FROM temp.launched WHERE op = rocpd_op.id)"
    process = f"(SELECT pid FROM rocpd_api WHERE id = {call})"
    ranks: dict[int, int] = {}
    if database.has("rocpd_api", "pid") and database.has("rocpd_op", "gpuId"):
        used = database.rows(f"SELECT {process}, MIN(gpuId) FROM rocpd_op GROUP BY 1")
        ranks = ranks_of((pid, device) for pid, device in used if pid is not None)
    rank = {"rank": case(process, ranks, "NULL")} if ranks else {}
    rank_of_call = {"rank": case("pid", ranks, "NULL")} if ranks else {}
    if database.has("rocpd_op", "gpuId", "queueId", "start", "end", "description_id", "opType_id"):
        arguments = {"device": "gpuId", "stream": "queueId", "correlation": call, **rank}
        if database.has("rocpd_copyapi", "api_ptr_id", "size"):
            arguments["bytes"] = f"(SELECT size FROM rocpd_copyapi WHERE api_ptr_id = {call})"
        name = f"COALESCE(NULLIF({_text('description_id')}, ''), {_TYPE})"
        yield from database.texts(
            event_rows("rocpd_op", category=_CATEGORY, name=name, pid="gpuId", tid="queueId", arguments=arguments)
        )
    if database.has("rocpd_api", "pid", "tid", "start", "end", "apiName_id", "args_id"):
        name = _text("apiName_id")
        yield from database.texts(
            event_rows(
                "rocpd_api",
                category=f"CASE WHEN {name} LIKE 'cu%' THEN 'cuda_runtime' ELSE 'hip_runtime' END",
                name=name,
                pid="pid",
                tid="tid",
                arguments={"correlation": "id", **rank_of_call},
            )
            + f" WHERE {name} <> '{_MARKER}'"
        )
        rows = database.rows(
            f'SELECT pid, tid, CAST(start AS INTEGER), CAST("end" AS INTEGER), {_text("args_id")} FROM rocpd_api '
            f"WHERE {name} = '{_MARKER}'"
        )
        for pid, tid, start, end, text in rows:
            if event := range_event(text):
                args = event["args"] | ({"rank": ranks.get(pid)} if ranks else {})
                yield msgspec.json.encode(event | timed(start, end) | {"pid": pid, "tid": tid, "args": args}).decode()
