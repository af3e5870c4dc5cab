// Layer differences: which layers of two traces are not the same, and what does it cost?
//
// Layers are modules that differ by nothing but the number of the instance and stand in one call of a module, or in
// none. The largest change comes first.
// Of a comparison that `db push-diff A B` stored: of the parts of the traces that were compared then.
//
// Parameters:
//   a: run/name, name or id of a trace; null for that of the comparison that was pushed last
//   b: run/name, name or id of another trace; null likewise
//   top: number of rows; 0 for all
//
// Columns:
//   layer_a: the layer in a; absent where only b has it
//   layer_b: what belongs to it in b; absent where only a has it
//   inside: the module around it, in a if it is there; absent for none
//   kind: how they resemble each other: identical, same structure, renamed, other arguments, wrapped, changed (what
//     is below differs), only in a, only in b
//   gpu_time_a_us: sum of the durations of the GPU events there in a, us
//   gpu_time_b_us: the same in b, us
//   change_us: GPU time of b less that of a, us
//   uid_a: the layer in a
//   uid_b: what belongs to it in b
WITH {a: null, b: null, top: 100} AS p
MATCH (d:Diff {state: 'complete'})
MATCH (a:Trace {id: d.a}) WHERE p.a IS NULL OR p.a IN [a.id, a.path, a.name]
MATCH (b:Trace {id: d.b}) WHERE p.b IS NULL OR p.b IN [b.id, b.path, b.name]
WITH p, a, b, d ORDER BY d.pushed_ns DESC, d.key LIMIT 1
CALL (a, b, d) {
  MATCH (m:Module) WHERE m.trace = a.id
  MATCH (m)-[:INSTANCE_OF]->(c:SubtreeClass)
  OPTIONAL MATCH (m)-[e:MATCHES]->(y:Event) WHERE y.trace = b.id
  OPTIONAL MATCH (d)-[o:ONLY_IN_A]->(m)
  WITH m, c, e, y, o WHERE e IS NOT NULL OR o IS NOT NULL
  WITH c.name AS class, head(COLLECT {
    MATCH (m)<-[:CALLS*]-(n:Module) RETURN n ORDER BY n.depth DESC LIMIT 1
  }) AS around, m, {
    x: m, y: y, kind: coalesce(e.kind, 'only in a'), ns_a: coalesce(e.a_ns, o.ns), ns_b: coalesce(e.b_ns, 0)
  } AS pair
  WITH class, around, collect(pair) AS pairs WHERE size(pairs) > 1
  UNWIND pairs AS pair
  RETURN around, pair
  UNION ALL
  MATCH (m:Module) WHERE m.trace = b.id
  MATCH (m)-[:INSTANCE_OF]->(c:SubtreeClass)
  OPTIONAL MATCH (m)<-[e:MATCHES]-(x:Event) WHERE x.trace = a.id
  OPTIONAL MATCH (d)-[o:ONLY_IN_B]->(m)
  WITH m, c, e, o WHERE e IS NOT NULL OR o IS NOT NULL
  WITH c.name AS class, head(COLLECT {
    MATCH (m)<-[:CALLS*]-(n:Module) RETURN n ORDER BY n.depth DESC LIMIT 1
  }) AS around, CASE WHEN o IS NOT NULL THEN {x: null, y: m, kind: 'only in b', ns_a: 0, ns_b: o.ns} END AS pair, m
  WITH class, around, collect(pair) AS pairs, count(m) AS layers WHERE layers > 1
  UNWIND pairs AS pair
  RETURN around, pair
}
WITH p, around, pair WHERE pair.kind <> 'identical' OR pair.ns_a <> pair.ns_b
WITH p, around, pair
ORDER BY abs(pair.ns_b - pair.ns_a) DESC, pair.x IS NULL, coalesce(pair.x.uid, pair.y.uid)
WITH p, collect({around: around, pair: pair}) AS rows
UNWIND rows[..CASE p.top WHEN 0 THEN size(rows) ELSE p.top END] AS r
WITH r.around AS around, r.pair AS pair
RETURN pair.x.name AS layer_a, pair.y.name AS layer_b, around.name AS inside, pair.kind AS kind,
       pair.ns_a / 1e3 AS gpu_time_a_us, pair.ns_b / 1e3 AS gpu_time_b_us,
       (pair.ns_b - pair.ns_a) / 1e3 AS change_us, pair.x.uid AS uid_a, pair.y.uid AS uid_b
