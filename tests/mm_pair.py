"""One large matrix product in both traces of its run, by hand from published figures.

bf16 `aten::mm` of [16384, 4096] x [4096, 8192]: one query of occupancy, one launch, one kernel. Times, sizes, registers
and shared memory are as published; kernel and device are ones that these fit to, a tile of 256 x 128 in three stages.
"""

from __future__ import annotations

from typing import Any

from handmade import span

MM = 5
"""Id of the product's node."""
RECORD = 2
KERNEL = "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nn"
SCHEMA = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
START = 1_000.5
A100 = {
    "id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 84990623744, "computeMajor": 8, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "numSms": 108, "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 166912,
    "sharedMemPerMultiprocessor": 167936,
}  # fmt: skip


def kineto() -> dict[str, Any]:
    """The profiler's trace as parsed JSON."""
    gpu = {"device": 0, "context": 1, "stream": 7}
    kernel = {
        "queued": 0, "registers per thread": 234, "shared memory": 147456, "blocks per SM": 37.925926,
        "warps per SM": 303.407410, "grid": [64, 64, 1], "block": [256, 1, 1], "est. achieved occupancy %": 0,
    }  # fmt: skip
    launched = span("kernel", KERNEL, START + 170.0, 7309.66, 0, 7, **gpu, External_id=9, correlation=41)
    launched["args"] |= kernel
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [A100],
        "traceEvents": [
            span("user_annotation", "product", START - 10, 300.0, External_id=8, Record_function_id=1),
            span(
                "cpu_op", "aten::mm", START, 259.16, External_id=9, Record_function_id=RECORD,
                Input_Dims=[[16384, 4096], [4096, 8192]], Input_type=["c10::BFloat16", "c10::BFloat16"],
            ),
            span("cuda_runtime", "cudaOccupancyMaxActiveBlocksPerMultiprocessor", START + 20, 2.81, External_id=9,
                 cbid=296, correlation=40),
            span("cuda_runtime", "cudaLaunchKernel", START + 30, 151.17, External_id=9, cbid=211, correlation=41),
            launched,
        ],
    }  # fmt: skip


def execution_trace() -> dict[str, Any]:
    """The execution trace as parsed JSON."""
    a, b, product = (
        [10, 11, 0, 67108864, 2, "cuda:0"],
        [12, 13, 0, 33554432, 2, "cuda:0"],
        [14, 15, 0, 134217728, 2, "cuda:0"],
    )
    tensor = "Tensor(c10::BFloat16)"
    inputs = {
        "values": [a, b], "shapes": [[16384, 4096], [4096, 8192]], "types": [tensor] * 2,
        "strides": [[4096, 1], [8192, 1]],
    }  # fmt: skip
    outputs = {"values": [product], "shapes": [[16384, 8192]], "types": [tensor], "strides": [[8192, 1]]}
    return {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": 100,
        "time": "2026-01-01 00:00:00",
        "start_ts": 1,
        "finish_ts": 2,
        "nodes": [
            node(MM, 4, "aten::mm", RECORD, 0, SCHEMA, inputs, outputs),
            node(4, 2, "product", 1, 7),
            node(2, 1, "[pytorch|profiler|execution_trace|thread]", 0, 7),
            node(1, 1, "[pytorch|profiler|execution_trace|process]", 0, 7, tid=0),
        ],
    }


def node(
    number: int, parent: int, name: str, record: int, scope: int, schema: str = "",
    inputs: dict[str, Any] | None = None, outputs: dict[str, Any] | None = None, tid: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """A node as PyTorch writes it from schema 1.0.2 on."""
    empty = {"values": [], "shapes": [], "types": [], "strides": []}
    attributes = [
        ("rf_id", "uint64", record), ("fw_parent", "uint64", 0), ("seq_id", "int64", -1), ("scope", "uint64", scope),
        ("tid", "uint64", tid), ("fw_tid", "uint64", 0), ("op_schema", "string", schema),
        ("kernel_backend", "string", ""), ("kernel_file", "string", ""),
    ]  # fmt: skip
    return {
        "id": number, "name": name, "ctrl_deps": parent, "inputs": inputs or empty, "outputs": outputs or empty,
        "attrs": [dict(zip(("name", "type", "value"), one, strict=True)) for one in attributes],
    }  # fmt: skip
