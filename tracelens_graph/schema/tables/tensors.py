"""Tables of tensors and storages, of traces that are linked with their execution trace."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.schema.tables.shared import GPU_TIME, count, instance, key, moment, text, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

_NODE = Column("id of that op in the execution trace", role=Role.uid, heading="node", drop_priority=0)

STORAGE_KERNELS: About = {
    "storage": key("name of the storage"),
    "kernel": text("name of the kernel, copy or fill"),
    "access": text("what the op that it is charged to did with tensors of the storage: made, read, written"),
    "op": text("name of that op"),
    "op_uid": uid("that op"),
    "device": Column("index of the device"),
    "stream": Column("number of the stream"),
    "start_us": moment("start of the kernel", "us"),
    "dur_us": Column("its duration", "us", Role.sum),
    "uid": instance("the kernel"),
}

TENSOR_MAKERS: About = {
    "op": text("name of the op that reads"),
    "tensor": key("name, type and sizes of what it reads"),
    "bytes": Column("size of the tensor's elements", "B"),
    "made_by": text("op that made the tensor; absent where it was there before, or was made out of sight"),
    "made_by_uid": uid("that op"),
    "view_of": text("what the tensor was made a view of; absent for none"),
    "storage": text("the tensor's storage; absent for a tensor without elements"),
    "allocated_by": text("op that allocated the storage; absent as for made_by"),
    "allocated_by_uid": uid("that op"),
    "written_by": text("op that wrote last into the storage before this one began; absent where none did in place"),
    "written_by_uid": uid("that op"),
}

COPY_CHAINS: About = {
    "copies": Column("number of copies, one after another"),
    "bytes": Column("what they copied in all", "B"),
    "way": text("tensors from the first source to the last copy, with >"),
    "devices": text("devices of these, with >"),
    "first_op": text("name of the op of the first copy"),
    "first_uid": instance("that op"),
    "last_op": text("name of the op of the last copy"),
    "last_uid": uid("that op"),
}

BYTES_ALIVE: About = {
    "device": key("device, such as cuda:0"),
    "at_us": moment("the moment", "us"),
    "bytes": Column("sum of the sizes of the storages alive then", "B"),
    "storages": Column("number of these"),
    "percent_of_peak": Column("the same as share of the greatest sum at any moment", "%"),
}

PEAK_BYTES_BY_MODULE: About = {
    "device": key("device, such as cuda:0"),
    "at_us": moment("the first moment at which most bytes are alive", "us"),
    "module": key("innermost nn.Module around the op that allocated the storages; absent for none"),
    "op": key("outermost op around the allocation; absent for what was there before, or was made out of sight"),
    "storages": count("number of storages alive then"),
    "bytes": Column("sum of their sizes", "B", Role.sum),
    "percent": Column("share of all bytes alive then on the device", "%", Role.share),
}

SHARED_READS: About = {
    "storage": key("name of the storage"),
    "bytes": Column("its size", "B"),
    "device": Column("index of the device of the kernels"),
    "streams": Column("number of streams with kernels of ops that read it"),
    "stream_numbers": text("the numbers of these streams"),
    "kernels": count("number of these kernels, copies and fills"),
    "gpu_time_us": GPU_TIME,
    "uid": instance("the first of them"),
}

TENSOR_LIFE: About = {
    "what": key("made, viewed, read, written, or passed on: given out again by an op around"),
    "tensor": key("name of the tensor", "tensor"),
    "form": text("its type and sizes then", "form"),
    "op": replace(text("name of the op", "op"), drop_priority=0),
    "argument": replace(
        text("which argument or result of the op it is; n[m] for the m-th of a list", "argument"), drop_priority=0
    ),
    "node": _NODE,
    "uid": uid("the op in the trace; absent where it did not join"),
    "module": replace(text("innermost nn.Module around the op", "module"), drop_priority=2),
    "step": Column("n of the ProfilerStep#n that holds the op", heading="step", drop_priority=2),
    "at_ms": moment("start of the op", "ms"),
    "kernels": replace(count("GPU events charged to the op", "kernels"), drop_priority=2),
    "gpu_time_us": GPU_TIME,
    "kernel": replace(text("the longest of them", "longest kernel"), drop_priority=2),
}

TENSOR_VERSIONS: About = {
    "name": key("name of the tensor or storage", "name"),
    "form": text("type and sizes of a tensor", "form"),
    "bytes": Column("size; of a storage the least that it can have", "B", heading="bytes"),
    "device": replace(text("where it is", "device"), drop_priority=2),
    "made_by": replace(
        text("op that made it; absent where it was there before, or was made out of sight", "made by"), drop_priority=0
    ),
    "node": _NODE,
    "uses": replace(count("places where it is argument or result", "uses"), drop_priority=2),
    "last_used_by": replace(text("op of the last use", "last used by"), drop_priority=3),
}

SCHEMAS = {
    "tensor_versions": TableSchema("The tensors and storages that had an id.", TENSOR_VERSIONS),
    "storage_kernels": TableSchema("Kernels, copies and fills of the ops that touched a storage.", STORAGE_KERNELS),
    "tensor_makers": TableSchema(
        "Who made what an op reads, who allocated its memory, and who wrote there last.", TENSOR_MAKERS
    ),
    "copy_chains": TableSchema("Tensors that are copied or cast, and then copied again.", COPY_CHAINS),
    "bytes_alive": TableSchema("How much memory tensors hold over time.", BYTES_ALIVE),
    "peak_bytes_by_module": TableSchema("Who allocated what is in use when most memory is.", PEAK_BYTES_BY_MODULE),
    "shared_reads": TableSchema("Memory that kernels on several streams read.", SHARED_READS),
    "tensor_life": TableSchema("Every use of a tensor or storage, in order.", TENSOR_LIFE),
}
