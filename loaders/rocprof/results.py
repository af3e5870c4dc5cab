"""A JSON result of rocprofv3 (`--output-format json`), in the words of PyTorch's profiler.

Times are nanoseconds of the machine's clock. Source: what rocprofiler-sdk's `generateJSON.cpp` writes, and recorded
files. A record names its kind and operation by numbers, which `strings.buffer_records` explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from tracelens_graph.errors import TraceError
from tracelens_graph.frameworks import ROCPROF
from tracelens_graph.loaders.ranges import range_event
from tracelens_graph.loaders.rocprof.rocpd import is_range
from tracelens_graph.loaders.translated import APART, ranks_of, timed, trace_text

_CALLS = ("hip_api", "hsa_api", "rccl_api", "marker_api")


class _Handle(Struct):
    handle: int = 0


class _Correlation(Struct):
    internal: int = 0


class _Size(Struct):
    x: int = 1
    y: int = 1
    z: int = 1


class _Dispatch(Struct):
    agent_id: _Handle = field(default_factory=_Handle)
    queue_id: _Handle = field(default_factory=_Handle)
    kernel_id: int = 0
    workgroup_size: _Size = field(default_factory=_Size)
    grid_size: _Size = field(default_factory=_Size)


class _Record(Struct):
    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: _Correlation = field(default_factory=_Correlation)
    start_timestamp: int = -1
    end_timestamp: int = 0
    dispatch_info: _Dispatch = field(default_factory=_Dispatch)
    stream_id: _Handle | None = None
    src_agent_id: _Handle = field(default_factory=_Handle)
    dst_agent_id: _Handle = field(default_factory=_Handle)
    bytes: int | None = None


class _Agent(Struct):
    id: _Handle
    type: int = 0
    name: str = ""
    product_name: str = ""
    cu_count: int = 0
    wave_front_size: int = 0


class _Symbol(Struct):
    kernel_id: int = 0
    formatted_kernel_name: str = ""


class _Kind(Struct):
    kind: str = ""
    operations: list[str] = []


class _Text(Struct):
    key: int = 0
    value: str = ""


class _Strings(Struct):
    buffer_records: list[_Kind] = []
    marker_api: list[_Text] = []


class _Metadata(Struct):
    pid: int = 0


class _Process(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)
    agents: list[_Agent] = []
    strings: _Strings = field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: dict[str, list[_Record]] = {}


class _Result(Struct, rename={"processes": "rocprofiler-sdk-tool"}):
    processes: list[_Process] = []


_GPU = 2
"""Type of an agent that is a GPU."""

_DIRECTIONS = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD", "HOST_TO_HOST": "HtoH"}


def translated(data: bytes, name: str) -> Iterator[bytes]:
    """The text of the trace that says what a result says.

    Raises:
        TraceError: it is cut short, or is not built as rocprofv3 builds it.
    """
    try:
        processes = msgspec.json.decode(data, type=_Result).processes
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TraceError(f"{name}: the JSON result of rocprofv3 cannot be read: {error}") from None
    devices = [
        {
            "id": at,
            "name": one.product_name or one.name,
            "numSms": one.cu_count,
            "warpSize": one.wave_front_size,
        }
        for process in processes[:1]
        for at, one in enumerate(_gpus(process))
    ]
    beside = {"schemaVersion": 1, "profiler": ROCPROF.profiler, "deviceProperties": devices}
    encode = msgspec.json.Encoder().encode
    ranks = ranks_of((at, device) for at, process in enumerate(processes) for device in _used(process))
    events = (event for at, process in enumerate(processes) for event in _events(process, ranks.get(at)))
    return trace_text(beside, (encode(event).decode() for event in events))


def _gpus(process: _Process) -> list[_Agent]:
    return [agent for agent in process.agents if agent.type == _GPU]


def _devices(process: _Process) -> dict[int, int]:
    """Handle of each GPU -> its number."""
    return {agent.id.handle: at for at, agent in enumerate(_gpus(process))}


def _used(process: _Process) -> set[int]:
    """The GPUs for which a process had work."""
    devices, records = _devices(process), process.buffer_records
    handles = {record.dispatch_info.agent_id.handle for record in records.get("kernel_dispatch", ())}
    for record in records.get("memory_copy", ()):
        handles |= {record.dst_agent_id.handle, record.src_agent_id.handle}
    return {devices[handle] for handle in handles if handle in devices}


def _events(process: _Process, rank: int | None) -> Iterator[dict[str, Any]]:
    """The events of a process; of one of several that used a GPU with its rank."""
    devices = _devices(process)
    kernels = {symbol.kernel_id: symbol.formatted_kernel_name for symbol in process.kernel_symbols}
    messages = {text.key: text.value for text in process.strings.marker_api}
    kinds = process.strings.buffer_records
    of_rank = {} if rank is None else {"rank": rank}

    def called(record: _Record) -> str:
        """Name of an operation."""
        operations = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
        return (
            operations[record.operation] if 0 <= record.operation < len(operations) else f"operation {record.operation}"
        )

    def event(record: _Record, category: str, name: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
        args["correlation"] = record.correlation_id.internal + APART * (rank or 0) or None
        args |= of_rank
        place = {"cat": category, "name": name, "pid": pid, "tid": tid, "args": args}
        return timed(record.start_timestamp, record.end_timestamp) | place

    records = process.buffer_records
    for record in records.get("kernel_dispatch", ()):
        info = record.dispatch_info
        device = devices.get(info.agent_id.handle, -1)
        stream = (record.stream_id or info.queue_id).handle
        block = [max(size, 1) for size in (info.workgroup_size.x, info.workgroup_size.y, info.workgroup_size.z)]
        items = (info.grid_size.x, info.grid_size.y, info.grid_size.z)
        grid = [-(-all_ // some) for all_, some in zip(items, block, strict=True)]
        name = kernels.get(info.kernel_id) or f"kernel {info.kernel_id}"
        yield event(record, "kernel", name, device, stream, device=device, stream=stream, grid=grid, block=block)
    for record in records.get("memory_copy", ()):
        ends = [devices[one.handle] for one in (record.dst_agent_id, record.src_agent_id) if one.handle in devices]
        device, stream = (ends[0] if ends else -1), (record.stream_id or _Handle()).handle
        way = called(record).removeprefix("MEMORY_COPY_")
        name = f"Memcpy {_DIRECTIONS.get(way, way)}"
        yield event(record, "gpu_memcpy", name, device, stream, device=device, stream=stream, bytes=record.bytes)
    pid = process.metadata.pid
    for record in (one for calls in _CALLS for one in records.get(calls, ())):
        if is_range(kinds[record.kind].kind if 0 <= record.kind < len(kinds) else ""):
            marked = range_event(messages.get(record.correlation_id.internal) or called(record))
            if marked and record.end_timestamp > record.start_timestamp:  # else it marks a moment
                one = event(record, marked["cat"], marked["name"], pid, record.thread_id)
                yield one | {"args": marked["args"] | of_rank}
        else:
            yield event(record, "hip_runtime", called(record), pid, record.thread_id)
