// Ops only in one: which ops only one of two traces has, how often, and how long the GPU worked for them.
//
// Ops are separated by their names alone; those with the most GPU time come first.
//
// Parameters:
//   a: run/name, name or id of a trace; null for the one that was pushed before b
//   b: run/name, name or id of another trace; null for the one that was pushed last
//
// Columns:
//   only_in: the trace that has the op, run/name
//   name: name of the op
//   count: calls
//   gpu_time_us: sum of the durations of the GPU events that are charged to the calls, us
WITH {a: null, b: null} AS p
MATCH (b:Trace {state: 'complete'})
WHERE p.b IS NULL OR p.b IN [b.id, b.path, b.name]
WITH p, b ORDER BY b.pushed_ns DESC, b.id LIMIT 1
MATCH (a:Trace {state: 'complete'})
WHERE a.id <> b.id AND CASE WHEN p.a IS NULL THEN a.pushed_ns < b.pushed_ns ELSE p.a IN [a.id, a.path, a.name] END
WITH a, b ORDER BY a.pushed_ns DESC, a.id LIMIT 1
UNWIND [a, b] AS t
MATCH (o:Op)
WHERE o.trace = t.id
WITH o.name AS name, t, collect(o) AS ops
WITH name, collect({path: t.path, ops: ops}) AS sides
WHERE size(sides) = 1
WITH name, sides[0] AS side
CALL (side) {
  UNWIND side.ops AS o
  MATCH (o)<-[:CHARGED_TO]-(k:GpuEvent)
  RETURN sum(k.dur_ns) AS ns
}
RETURN side.path AS only_in, name, size(side.ops) AS count, ns / 1000.0 AS gpu_time_us
ORDER BY ns DESC, count DESC, name
