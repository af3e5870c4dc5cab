// Kernel choices: where two traces launched different kernels for an op with the same arguments, and what that cost.
//
// Signatures that both charge with GPU work, but not of the same names; the greatest costs and gains first.
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
//   kernels_a: kernels, copies and fills charged to the calls in a, those with the most time first; short names,
//     or whole ones where the short names of a and b are the same
//   kernels_b: the same in b
//   count_a: calls in a that led to GPU work
//   count_b: calls in b that led to GPU work
//   call_time_a_us: GPU time charged to a call in a, on average, us
//   call_time_b_us: the same in b, us
//   cost_us: GPU time of the calls in b beyond what as many took in a, us; negative where b gained
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
  WITH b, t, s, collect(o) AS ops
  CALL (ops) {
    UNWIND ops AS o
    MATCH (o)<-[:CHARGED_TO]-(k:GpuEvent)-[:NAMED]->(n:KernelName)
    WITH n, sum(k.dur_ns) AS ns ORDER BY ns DESC, n.name
    RETURN collect(n) AS kernels, sum(ns) AS ns
  }
  WITH b, t, s, ops, kernels, ns WHERE size(kernels) > 0
  WITH s, collect({b: t = b, kernels: kernels, count: size(ops), call_us: toFloat(ns) / size(ops) / 1000.0}) AS sides
  WHERE size(sides) = 2
  RETURN s, [side IN sides WHERE NOT side.b][0] AS of_a, [side IN sides WHERE side.b][0] AS of_b
}
WITH p, s, of_a, of_b,
     [n IN of_a.kernels | coalesce(n.short_name, n.name)] AS short_a,
     [n IN of_b.kernels | coalesce(n.short_name, n.name)] AS short_b,
     (of_b.call_us - of_a.call_us) * of_b.count AS cost
WHERE any(n IN of_a.kernels WHERE NOT n IN of_b.kernels) OR any(n IN of_b.kernels WHERE NOT n IN of_a.kernels)
WITH p, s, of_a, of_b, short_a, short_b, cost ORDER BY abs(cost) DESC, s.name, s.key
WITH p, collect({s: s, a: of_a, b: of_b, short_a: short_a, short_b: short_b, cost: cost}) AS rows
UNWIND rows[..CASE p.top WHEN 0 THEN size(rows) ELSE p.top END] AS r
RETURN r.s.name AS name, r.s.input_dims AS input_dims, r.s.input_types AS input_types,
       r.s.input_strides AS input_strides, r.s.concrete_inputs AS concrete_inputs,
       CASE WHEN r.short_a = r.short_b THEN [n IN r.a.kernels | n.name] ELSE r.short_a END AS kernels_a,
       CASE WHEN r.short_a = r.short_b THEN [n IN r.b.kernels | n.name] ELSE r.short_b END AS kernels_b,
       r.a.count AS count_a, r.b.count AS count_b,
       r.a.call_us AS call_time_a_us, r.b.call_us AS call_time_b_us,
       r.cost AS cost_us
