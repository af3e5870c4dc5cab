"""Instructions of XLA, by what they are called for (`graph.hlo.attributes.table_name`).

They have one model: what XLA's own analysis says of the instruction, which the loader left among its arguments.
"""

from __future__ import annotations

from tracelens_graph.op_table.entry import Rows, model, ops

INSTRUCTION = "hlo::instruction"
"""Row of the model of all instructions; a call is shown in the table by family that its category has."""


def _rows(category: str, *names: str) -> Rows:
    return ops(*(f"hlo::{name}" for name in names), category=category)


OPS: Rows = [
    *ops(INSTRUCTION, category="XLA", model=model("hlo.instruction"), sheet="XLA"),
    *_rows("GEMM", "dot", "ragged-dot", "fusion(dot)", "custom-call(gemm)"),
    *_rows("CONV_fwd", "convolution", "fusion(convolution)", "custom-call(convolution forward)"),
    *_rows("CONV_bwd", "custom-call(convolution backward)"),
    *_rows("SDPA_fwd", "custom-call(attention forward)"),
    *_rows("SDPA_bwd", "custom-call(attention backward)"),
    *_rows("NORM_fwd", "custom-call(norm forward)", "batch-norm-inference", "batch-norm-training"),
    *_rows("NORM_bwd", "custom-call(norm backward)", "batch-norm-grad"),
    *_rows("reduce", "fusion(reduce)", "reduce", "reduce-window", "select-and-scatter"),
    *_rows("elementwise", "fusion(elementwise)", "convert", "map", "select", "clamp"),
    *_rows(
        "XLA copy", "fusion(copy)", "copy", "copy-start", "copy-done", "transpose", "reshape", "bitcast", "broadcast",
        "concatenate", "pad", "slice", "dynamic-slice", "dynamic-update-slice", "reverse", "iota", "constant",
    ),
    *_rows("XLA gather", "gather", "fusion(gather)", "scatter", "fusion(scatter)"),
    *_rows("XLA sort", "sort", "fusion(sort)", "custom-call(sort)"),
    *_rows("XLA custom call", "custom-call(other)", "custom-call(triton)", "fusion(custom-call)"),
    *_rows("XLA control flow", "while", "conditional", "call", "async-start", "async-done"),
    *_rows(
        "XLA collective", "custom-call(collective)", "fusion(collective)", "all-reduce", "all-reduce-start",
        "all-reduce-done", "all-gather", "all-gather-start", "all-gather-done", "reduce-scatter", "all-to-all",
        "ragged-all-to-all", "collective-permute", "collective-permute-start", "collective-permute-done",
        "collective-broadcast", "send", "send-done", "recv", "recv-done",
    ),
    *_rows("XLA random", "rng", "rng-bit-generator", "rng-get-and-update-state"),
    *_rows("XLA linear algebra", "fft", "cholesky", "triangular-solve"),
]  # fmt: skip
