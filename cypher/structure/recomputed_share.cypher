// Recomputation: how much GPU time is spent on computing activations again, by op and module.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   op: op that the work is charged to, else the runtime call that launched it
//   module: innermost nn.Module around it, without the number of the instance; absent for none
//   gpu_events: number of recomputed GPU events
//   gpu_time_us: sum of their durations, us
//   percent: share of the GPU time, the sum of the durations of all GPU events, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  RETURN sum(k.dur_ns) AS total
}
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step) AND k.recompute
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall)
WITH total, coalesce(o.name, r.name) AS op, k.dur_ns AS ns, head(COLLECT {
  MATCH (r)<-[:CALLS*]-(m:Module)-[:INSTANCE_OF]->(c:SubtreeClass) RETURN c.name ORDER BY m.depth DESC LIMIT 1
}) AS module
WITH total, op, module, count(*) AS events, sum(ns) AS ns
RETURN op, module, events AS gpu_events, ns / 1e3 AS gpu_time_us,
       CASE WHEN total > 0 THEN 100.0 * ns / total END AS percent
ORDER BY gpu_time_us DESC, op, module
