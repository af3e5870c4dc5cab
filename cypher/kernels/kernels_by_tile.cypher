// Tiles of kernels: which tile sizes and element types the matrix kernels were chosen with.
//
// Rows are kernels whose names give a tile or a type; percentages are of all kernels.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   dtype: type of the first operand's elements, such as bf16; null for all
//   tile_m: size of a thread block's tile along M; null for all
//   tile_n: the same along N; null for all
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   operation: what is computed, as the name says; absent where it does not
//   family: whose naming it is
//   dtype: type of the first operand's elements
//   tile_m: size of a thread block's tile along M
//   tile_n: the same along N
//   tile_k: the same along K
//   names: number of different kernel names
//   count: number of kernels
//   gpu_time_us: sum of their durations, us
//   mean_time_us: mean of their durations, us
//   percent: share of the GPU time, the sum of the durations of all GPU events, %
WITH {trace: null, dtype: null, tile_m: null, tile_n: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
MATCH (k)-[:NAMED]->(n:KernelName)
WITH p, n, k:Kernel AS is_kernel, count(*) AS events, sum(k.dur_ns) AS ns
WITH p, collect({n: n, is_kernel: is_kernel, events: events, ns: ns}) AS found, sum(ns) AS total
UNWIND found AS f
WITH p, total, f.n AS n, f.is_kernel AS is_kernel, f.events AS events, f.ns AS ns
WHERE is_kernel AND (n.dtype IS NOT NULL OR n.tile_m IS NOT NULL)
  AND (p.dtype IS NULL OR n.dtype = p.dtype)
  AND (p.tile_m IS NULL OR n.tile_m = p.tile_m)
  AND (p.tile_n IS NULL OR n.tile_n = p.tile_n)
WITH total, n.operation AS operation, n.family AS family, n.dtype AS dtype, n.tile_m AS tile_m, n.tile_n AS tile_n,
     n.tile_k AS tile_k, count(*) AS names, sum(events) AS count, sum(ns) AS ns
RETURN operation, family, dtype, tile_m, tile_n, tile_k, names, count, ns / 1e3 AS gpu_time_us,
       ns / 1e3 / count AS mean_time_us,
       CASE WHEN total > 0 THEN 100.0 * ns / total END AS percent
ORDER BY gpu_time_us DESC, family, operation, dtype, tile_m, tile_n, tile_k
