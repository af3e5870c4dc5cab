// Short kernels: which kernels are so short that launching them costs more than their work.
//
// Kernels only, without copies and fills.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   threshold_us: kernels shorter than this are short, us
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   Parent cpu_op: op that the kernels are charged to, else the runtime call that launched them
//   Kernel name: name of the kernels
//   Short Kernel duration (µs) sum: sum of their durations, us
//   Short Kernel count: their number
//   Short Kernel duration (µs) mean: mean of their durations, us
//   Short Kernel duration (µs) percent of total time: share of the time from the first start to the last end of
//     all GPU events, %
WITH {trace: null, threshold_us: 10, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  RETURN max(k.end_ns) - min(k.start_ns) AS span
}
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  AND k:Kernel AND k.dur_ns / 1e3 < p.threshold_us
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall)
WITH span, coalesce(o.name, r.name, '(no launch in trace)') AS parent, k.name AS name, count(*) AS events,
     sum(k.dur_ns) AS ns
RETURN parent AS `Parent cpu_op`, name AS `Kernel name`, ns / 1e3 AS `Short Kernel duration (µs) sum`,
       events AS `Short Kernel count`, ns / 1e3 / events AS `Short Kernel duration (µs) mean`,
       CASE WHEN span > 0 THEN 100.0 * ns / span END AS `Short Kernel duration (µs) percent of total time`
ORDER BY `Short Kernel duration (µs) sum` DESC, `Parent cpu_op`, `Kernel name`
