"""What operations should cost: FLOPs and bytes from their arguments, and time at the roof of a device.

Without a trace: `tracelens_graph.perf.gemm(m, n, k, dtype="bf16")`.
"""
