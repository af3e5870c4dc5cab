// Repeated subtrees: which parts of the call tree run again and again, and what they cost.
//
// Calls are alike if they call the same, with the same arguments, down to the kernels. A part that only runs inside a
// larger call of the list, as often as this one, is left out. Other parts are in the list beside the calls around them,
// so times of different rows do not add up.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   kind: Module or Op; null for modules where the trace knows any, else ops
//   min_count: least number of repetitions
//
// Columns:
//   name: name of the call, without what differs between instances
//   kind: Module or Op
//   count: number of calls that are alike
//   gpu_events: number of GPU events in one of them
//   gpu_time_us: sum of the durations of the GPU events of all of them, us
//   mean_gpu_time_us: the same per call, us
//   percent: share of the GPU time, the sum of the durations of all GPU events, %
//   class: what they are instances of
//   uid: the first of them
WITH {trace: null, kind: null, min_count: 2} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
WITH p, t, coalesce(p.kind, CASE WHEN EXISTS {
  MATCH (m:Module) WHERE m.trace = t.id AND m.gpu_events > 0
} THEN 'Module' ELSE 'Op' END) AS kind
CALL (t) {
  MATCH (k:GpuEvent) WHERE k.trace = t.id
  RETURN sum(k.dur_ns) AS total
}
CALL (t, kind) {
  MATCH (n:Module) WHERE n.trace = t.id AND kind = 'Module'
  MATCH (n)-[:INSTANCE_OF]->(c:SubtreeClass) RETURN n, c
  UNION ALL
  MATCH (n:Op) WHERE n.trace = t.id AND kind = 'Op'
  MATCH (n)-[:INSTANCE_OF]->(c:SubtreeClass) RETURN n, c
}
WITH p, kind, total, c, n ORDER BY n.pre
WITH p, kind, total, c, head(collect(n)) AS first, count(*) AS count, sum(n.gpu_sum_ns) AS ns
WHERE count >= p.min_count
// All instances of a class hold the same, so one shows what they all stand in.
WITH kind, total, {c: c, first: first, count: count, ns: ns} AS found, head(COLLECT {
  MATCH (first)<-[:CALLS*]-(a)-[:INSTANCE_OF]->(above:SubtreeClass) WHERE kind IN labels(a)
  RETURN above ORDER BY a.depth DESC LIMIT 1
}) AS above
// Every class once with its count, and once below the class it stands in.
UNWIND [{c: found.c, count: found.count}, {c: above, part: found}] AS one
WITH kind, total, one.c AS around, max(one.count) AS count, collect(one.part) AS parts
UNWIND parts AS f
WITH kind, total, f WHERE count IS NULL OR f.count <> count
RETURN f.c.name AS name, kind, f.count AS count, f.first.gpu_events AS gpu_events, f.ns / 1e3 AS gpu_time_us,
       f.ns / 1e3 / f.count AS mean_gpu_time_us, CASE WHEN total > 0 THEN 100.0 * f.ns / total END AS percent,
       f.c.key AS class, f.first.uid AS uid
ORDER BY gpu_time_us DESC, f.first.pre
