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
WITH p, t ORDER BY t.pushed_ns DESC LIMIT 1
CALL (p, t) {
  WITH p, t WHERE p.under IS NULL
  MATCH (b:Event) WHERE b.trace = t.id AND b.pre >= 0 AND b.depth = 0 AND b.gpu_events > 0
  RETURN 0 AS above, b
  UNION ALL
  MATCH (n:Event {trace: t.id, uid: p.under})-[:CALLS|LAUNCHES]->(b) WHERE b.gpu_events > 0
  RETURN 0 AS above, b
  UNION ALL
  WITH p, t, [p.under, 'nn.Module: ' + p.under] AS names WHERE p.under IS :: STRING NOT NULL
  MATCH (n:Module|PythonFunction|Op|RuntimeCall) WHERE n.trace = t.id AND n.pre >= 0 AND n.name IN names
  MATCH (n)-[:CALLS|LAUNCHES]->(b) WHERE b.gpu_events > 0
  RETURN n.pre AS above, b
}
MATCH (k:GpuEvent) WHERE k.trace = t.id AND k.pre >= b.pre AND k.pre <= b.last AND (p.step IS NULL OR k.step = p.step)
WITH k, b ORDER BY above
WITH k, head(collect(b)) AS b ORDER BY k.start_ns
WITH [label IN labels(b) WHERE NOT label IN ['Event', 'GpuEvent', 'Hot', 'Warm']][0] AS kind, b.name AS name,
     collect(DISTINCT b) AS nodes, min(b.pre) AS first, sum(k.dur_ns) AS time, collect([k.start_ns, k.end_ns]) AS events
WITH kind, name, size(nodes) AS nodes, [b IN nodes WHERE b.pre = first | b.uid][0] AS uid, time, size(events) AS events,
     reduce(s = {busy: 0, end: 0}, e IN events | CASE WHEN e[1] <= s.end THEN s ELSE
       {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy AS busy
WITH collect([kind, name, nodes, events, time, busy, uid]) AS rows, sum(time) AS whole
UNWIND rows AS row
RETURN row[0] AS kind, row[1] AS name, row[2] AS nodes, row[3] AS gpu_events, row[4] / 1e3 AS gpu_sum_us,
       row[5] / 1e3 AS gpu_busy_us, CASE WHEN whole > 0 THEN 100.0 * row[4] / whole ELSE 0.0 END AS percent,
       row[6] AS uid
ORDER BY row[4] DESC
