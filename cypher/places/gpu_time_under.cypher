// GPU time below a node: one step on the way down, by what is right below.
//
// Of nodes of one name inside each other the outermost counts, so every GPU event counts once.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   under: uid of a node, or name of modules (`nn.Module: ` may be left out), functions, ops or runtime calls; null for
//     the roots
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   kind: kind of the nodes right below
//   name: their name
//   nodes: nodes of this name with GPU work
//   gpu_events: GPU events below them
//   gpu_sum_us: sum of their durations, us
//   gpu_busy_us: length of the union of these GPU events, us
//   percent: share of the sum over all rows, %
//   uid: the first of the nodes; ask for it to go on downwards
WITH {trace: null, under: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  WITH p, t WHERE p.under IS NULL
  MATCH (b:Module|PythonFunction|Op|RuntimeCall|GpuEvent {trace: t.id}) WHERE b.depth = 0 AND b.gpu_events > 0
  RETURN b
  UNION ALL
  MATCH (n:Event {trace: t.id, uid: p.under})-[:CALLS|LAUNCHES|RAN_AS]->(b)
  WHERE b.gpu_events > 0 AND b.depth = n.depth + 1
  RETURN b
  UNION ALL
  MATCH (n:Module|PythonFunction|Op|RuntimeCall {trace: t.id})-[:CALLS|LAUNCHES|RAN_AS]->(b)
  WHERE n.name IN [p.under, 'nn.Module: ' + p.under] AND b.gpu_events > 0 AND b.depth = n.depth + 1
    AND NOT EXISTS { (n)<-[:CALLS*]-(o) WHERE o.name IN [p.under, 'nn.Module: ' + p.under] }
  RETURN b
}
MATCH (b)-[:CALLS|LAUNCHES|RAN_AS*0..]->(k:GpuEvent) WHERE p.step IS NULL OR k.step = p.step
WITH DISTINCT b, k
WITH b.name AS name, [label IN labels(b) WHERE NOT label IN ['Event', 'GpuEvent', 'Hot', 'Warm']][0] AS kind,
     count(DISTINCT b) AS nodes, min([b.pre, b.uid]) AS first, sum(k.dur_ns) AS time,
     collect([k.start_ns, k.end_ns]) AS events
WITH collect([kind, name, nodes, size(events), time, first, COLLECT {
       UNWIND events AS event RETURN event ORDER BY event
     }]) AS rows, sum(time) AS whole
UNWIND rows AS row
RETURN row[0] AS kind, row[1] AS name, row[2] AS nodes, row[3] AS gpu_events, row[4] / 1e3 AS gpu_sum_us,
       reduce(union = [0, 0], event IN row[6] | CASE
         WHEN event[0] >= union[1] THEN [union[0] + event[1] - event[0], event[1]]
         WHEN event[1] > union[1] THEN [union[0] + event[1] - union[1], event[1]]
         ELSE union
       END)[0] / 1e3 AS gpu_busy_us,
       CASE WHEN whole > 0 THEN 100.0 * row[4] / whole ELSE 0.0 END AS percent, row[5][1] AS uid
ORDER BY row[4] DESC, row[5]
