// Common signatures: how long the GPU worked in two traces for ops with the same arguments.
//
// Signatures that led to GPU work in both traces, and are charged with some of it in one at least; the greatest
// differences first.
//
// Parameters:
//   a: run/name, name or id of a trace; null for the one that was pushed before b
//   b: run/name, name or id of another trace; null for the one that was pushed last
//   top: number of signatures; 0 for all
//
// Columns:
//   name: name of the op
//   input_dims: dims of the inputs, JSON
//   input_types: types of the inputs, JSON
//   input_strides: strides of the inputs, JSON
//   concrete_inputs: values of the inputs that are not tensors, JSON
//   count_a: calls in a that led to GPU work
//   count_b: calls in b that led to GPU work
//   gpu_time_a_us: sum of the durations of the GPU events that are charged to the calls in a, us
//   gpu_time_b_us: the same in b, us
//   ratio: GPU time of b over that of a; null where a has none
//   difference_us: GPU time of b less that of a, us
WITH {a: null, b: null, top: 100} AS p
MATCH (b:Trace {state: 'complete'})
WHERE p.b IS NULL OR p.b IN [b.id, b.path, b.name]
WITH p, b ORDER BY b.pushed_ns DESC, b.id LIMIT 1
MATCH (a:Trace {state: 'complete'})
WHERE a.id <> b.id AND CASE WHEN p.a IS NULL THEN a.pushed_ns < b.pushed_ns ELSE p.a IN [a.id, a.path, a.name] END
WITH p, a, b ORDER BY a.pushed_ns DESC, a.id LIMIT 1
CALL (a, b) {
  UNWIND [a, b] AS t
  MATCH (o:Op)-[:HAS_SIGNATURE]->(s:Signature)
  WHERE o.trace = t.id AND o.gpu_events > 0
  WITH t, s, collect(o) AS ops, b
  CALL (ops) {
    UNWIND ops AS o
    MATCH (o)<-[:CHARGED_TO]-(k:GpuEvent)
    RETURN sum(k.dur_ns) AS ns
  }
  WITH s, collect({b: t = b, count: size(ops), ns: ns}) AS sides
  WHERE size(sides) = 2
  RETURN s, [side IN sides WHERE NOT side.b][0] AS of_a, [side IN sides WHERE side.b][0] AS of_b
}
WITH p, s, of_a.count AS count_a, of_b.count AS count_b, of_a.ns AS ns_a, of_b.ns AS ns_b
WHERE ns_a + ns_b > 0
WITH p, s, count_a, count_b, ns_a, ns_b ORDER BY abs(ns_b - ns_a) DESC, s.name, s.key
WITH p, collect({s: s, count_a: count_a, count_b: count_b, ns_a: ns_a, ns_b: ns_b}) AS rows
UNWIND rows[..CASE p.top WHEN 0 THEN size(rows) ELSE p.top END] AS r
RETURN r.s.name AS name, r.s.input_dims AS input_dims, r.s.input_types AS input_types,
       r.s.input_strides AS input_strides, r.s.concrete_inputs AS concrete_inputs,
       r.count_a AS count_a, r.count_b AS count_b,
       r.ns_a / 1000.0 AS gpu_time_a_us, r.ns_b / 1000.0 AS gpu_time_b_us,
       CASE WHEN r.ns_a > 0 THEN toFloat(r.ns_b) / r.ns_a END AS ratio,
       (r.ns_b - r.ns_a) / 1000.0 AS difference_us
