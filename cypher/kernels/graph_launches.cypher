// Graph launches: what the captured graphs replay, and how long that takes.
//
// Launches that replay kernels of the same names in the same order are one row.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   call: the runtime call
//   launches: number of launches
//   gpu_events: GPU events that one launch replays; 0 where the trace holds none of them
//   names: number of different names among them
//   gpu_time_us: sum of their durations in all launches, us
//   mean_gpu_time_us: the same per launch, us
//   percent: share of the GPU time, the sum of the durations of all GPU events, %
//   longest: name with the most time
//   longest_time_us: its time in all launches, us
//   uid: the first of the launches
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  RETURN sum(k.dur_ns) AS total
}
MATCH (r:RuntimeCall) WHERE r.trace = t.id AND (p.step IS NULL OR r.step = p.step)
  AND any(call IN ['cudaGraphLaunch', 'cuGraphLaunch', 'hipGraphLaunch'] WHERE r.name STARTS WITH call)
  AND NOT EXISTS { (above:RuntimeCall)-[:CALLS]->(r) WHERE above.name CONTAINS 'GraphLaunch' }
WITH total, r.name AS call, r.class_with_kernels AS graph, coalesce(r.gpu_events, 0) AS events, collect(r) AS calls,
     sum(r.gpu_sum_ns) AS ns, min(r.uid) AS uid
CALL (calls) {
  UNWIND calls AS r
  MATCH (k:GpuEvent) WHERE k.trace = r.trace AND k.pre > r.pre AND k.pre <= r.last
  WITH k.name AS name, sum(k.dur_ns) AS ns ORDER BY ns DESC, name
  RETURN count(*) AS names, collect(name)[0] AS longest, max(ns) AS longest_ns
}
RETURN call, size(calls) AS launches, events AS gpu_events, names, ns / 1e3 AS gpu_time_us,
       ns / 1e3 / size(calls) AS mean_gpu_time_us, CASE WHEN total > 0 THEN 100.0 * ns / total END AS percent,
       longest, longest_ns / 1e3 AS longest_time_us, uid
ORDER BY gpu_time_us DESC, uid
