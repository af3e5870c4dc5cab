// Kernel categories: what kinds of kernels the GPU time goes to.
//
// Copies and fills, which have no category, stand in rows of their own.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   category: kind of kernel, by its name and op; Memcpy and Memset for copies and fills
//   names: number of different names
//   count: number of GPU events
//   gpu_time_us: sum of their durations, us
//   mean_time_us: mean of their durations, us
//   min_us: least duration, us
//   median_us: median of their durations, us
//   max_us: greatest duration, us
//   percent: share of the GPU time, the sum of the durations of all GPU events, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
MATCH (k)-[:NAMED]->(n:KernelName)
WITH CASE WHEN k:Memcpy THEN 'Memcpy' WHEN k:Memset THEN 'Memset' ELSE k.category END AS category,
     count(DISTINCT n) AS names, count(*) AS events, sum(k.dur_ns) AS ns, min(k.dur_ns) AS low,
     percentileCont(k.dur_ns, 0.5) AS middle, max(k.dur_ns) AS high
WITH collect({category: category, names: names, events: events, ns: ns, low: low, middle: middle, high: high}) AS found, sum(ns) AS total
UNWIND found AS f
RETURN f.category AS category, f.names AS names, f.events AS count, f.ns / 1e3 AS gpu_time_us,
       f.ns / 1e3 / f.events AS mean_time_us, f.low / 1e3 AS min_us, f.middle / 1e3 AS median_us,
       f.high / 1e3 AS max_us,
       CASE WHEN total > 0 THEN 100.0 * f.ns / total END AS percent
ORDER BY gpu_time_us DESC, category
