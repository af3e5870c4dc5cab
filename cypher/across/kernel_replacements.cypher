// Kernel replacements: which GPU events of one trace replaced those of another, and what did it cost?
//
// Rows are events that belong together by structure but have other names, and events that only one trace has; the
// largest change first. Of a comparison that `db push-diff A B` stored: of the parts of the traces that were compared
// then.
//
// Parameters:
//   a: run/name, name or id of a trace; null for that of the comparison that was pushed last
//   b: run/name, name or id of another trace; null likewise
//   kernel: what the name on either side holds
//   top: number of rows; 0 for all
//
// Columns:
//   op: op that the GPU work is charged to, in a if it is there; absent for none
//   kernel_a: name of the GPU event in a; absent where only b has one
//   kernel_b: name of what belongs to it in b; absent where only a has one
//   events_a: GPU events of that name in a, as far as the row is about them
//   events_b: the same in b
//   gpu_time_a_us: sum of the durations of the GPU events there in a, us
//   gpu_time_b_us: the same in b, us
//   change_us: GPU time of b less that of a, us
WITH {a: null, b: null, kernel: '', top: 100} AS p
MATCH (d:Diff {state: 'complete'})
MATCH (a:Trace {id: d.a}) WHERE p.a IS NULL OR p.a IN [a.id, a.path, a.name]
MATCH (b:Trace {id: d.b}) WHERE p.b IS NULL OR p.b IN [b.id, b.path, b.name]
WITH p, a, b, d ORDER BY d.pushed_ns DESC, d.key LIMIT 1
CALL (b, d) {
  MATCH (s:Divergence)-[:IN_A]->(x:GpuEvent)-[:MATCHES]->(y:GpuEvent)
  WHERE s.diff = d.key AND s.place >= 1 AND y.trace = b.id AND x.name <> y.name
  RETURN x, y
  UNION ALL
  MATCH (d)-[:ONLY_IN_A]->(x:GpuEvent)
  RETURN x, null AS y
  UNION ALL
  MATCH (d)-[:ONLY_IN_B]->(y:GpuEvent)
  RETURN null AS x, y
}
WITH p, x, y
WHERE coalesce(x.name CONTAINS p.kernel, false) OR coalesce(y.name CONTAINS p.kernel, false)
WITH p, x, y, coalesce(head([(x)-[:CHARGED_TO]->(o) | o.name]), head([(y)-[:CHARGED_TO]->(o) | o.name])) AS op
WITH p, op, x.name AS kernel_a, y.name AS kernel_b, collect(DISTINCT x) AS xs, collect(DISTINCT y) AS ys
WITH *, reduce(ns = 0, x IN xs | ns + x.dur_ns) AS ns_a, reduce(ns = 0, y IN ys | ns + y.dur_ns) AS ns_b
ORDER BY abs(ns_b - ns_a) DESC, coalesce(kernel_a, ''), coalesce(kernel_b, ''), coalesce(op, '')
WITH p, collect({op: op, a: kernel_a, b: kernel_b, xs: size(xs), ys: size(ys), ns_a: ns_a, ns_b: ns_b}) AS rows
UNWIND rows[..CASE p.top WHEN 0 THEN size(rows) ELSE p.top END] AS r
RETURN r.op AS op, r.a AS kernel_a, r.b AS kernel_b, r.xs AS events_a, r.ys AS events_b,
       r.ns_a / 1e3 AS gpu_time_a_us, r.ns_b / 1e3 AS gpu_time_b_us, (r.ns_b - r.ns_a) / 1e3 AS change_us
