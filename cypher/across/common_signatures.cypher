// Common signatures: how long the GPU worked in two traces for ops with the same arguments.
//
// Signatures that both traces ran and that have GPU time in one of them at least, the greatest differences first.
//
// Parameters:
//   a: run/name, name or id of a trace; null for the one that was pushed before b
//   b: run/name, name or id of another trace; null for the one that was pushed last
//   top: number of signatures
//
// Columns:
//   name: name of the op
//   input_dims: dims of the inputs, JSON
//   input_types: types of the inputs, JSON
//   input_strides: strides of the inputs, JSON
//   concrete_inputs: values of the inputs that are no tensors, JSON
//   count_a: calls in a, whether they launched GPU work or not
//   count_b: calls in b
//   gpu_time_a_us: sum of the durations of the GPU events that are charged to the calls in a, us
//   gpu_time_b_us: the same in b, us
//   ratio: GPU time of b over that of a; null where a has none
//   difference_us: GPU time of b less that of a, us
WITH {a: null, b: null, top: 100} AS p
MATCH (b:Trace {state: 'complete'})
WHERE p.b IS NULL OR p.b IN [b.id, b.path, b.name]
WITH p, b ORDER BY b.pushed_ns DESC LIMIT 1
MATCH (a:Trace {state: 'complete'})
WHERE a.id <> b.id AND CASE WHEN p.a IS NULL THEN a.pushed_ns < b.pushed_ns ELSE p.a IN [a.id, a.path, a.name] END
WITH p, a, b ORDER BY a.pushed_ns DESC LIMIT 1
UNWIND [a, b] AS t
MATCH (o:Op)-[:HAS_SIGNATURE]->(s:Signature)
WHERE o.trace = t.id AND o.pre >= 0
OPTIONAL MATCH (o)<-[:CHARGED_TO]-(k:GpuEvent)
WITH p, a, b, t, s, count(DISTINCT o) AS calls, sum(k.dur_ns) AS ns
WITH p, s,
     sum(CASE WHEN t = a THEN calls ELSE 0 END) AS count_a,
     sum(CASE WHEN t = b THEN calls ELSE 0 END) AS count_b,
     sum(CASE WHEN t = a THEN ns ELSE 0 END) AS ns_a,
     sum(CASE WHEN t = b THEN ns ELSE 0 END) AS ns_b
WHERE count_a > 0 AND count_b > 0 AND ns_a + ns_b > 0
WITH p, s, count_a, count_b, ns_a, ns_b ORDER BY abs(ns_b - ns_a) DESC, s.name, s.key
WITH p, collect({s: s, count_a: count_a, count_b: count_b, ns_a: ns_a, ns_b: ns_b})[..p.top] AS rows
UNWIND rows AS r
RETURN r.s.name AS name, r.s.input_dims AS input_dims, r.s.input_types AS input_types,
       r.s.input_strides AS input_strides, r.s.concrete_inputs AS concrete_inputs,
       r.count_a AS count_a, r.count_b AS count_b,
       r.ns_a / 1000.0 AS gpu_time_a_us, r.ns_b / 1000.0 AS gpu_time_b_us,
       CASE WHEN r.ns_a > 0 THEN toFloat(r.ns_b) / r.ns_a END AS ratio,
       (r.ns_b - r.ns_a) / 1000.0 AS difference_us
