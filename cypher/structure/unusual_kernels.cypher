// Unusual kernels: which kernels a single call of an op runs, and no other call of that op.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   min_calls: how many calls of the op with kernels there must be
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   op: op that the kernels are charged to
//   kernel: name of the kernel
//   calls: number of calls of the op with kernels
//   same_arguments: how many of them have the arguments of this call, itself included
//   input_dims: sizes of the inputs of this call, JSON
//   count: number of kernels of that name in the call
//   gpu_time_us: sum of their durations, us
//   percent: share of the time of all kernels of the op, %
//   uid: the call
WITH {trace: null, min_calls: 5, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step) AND k:Kernel
MATCH (k)-[:CHARGED_TO]->(o:Op)
WITH p, o, k.name AS kernel, count(*) AS count, sum(k.dur_ns) AS ns
WITH p, o, collect({kernel: kernel, count: count, ns: ns}) AS kernels, sum(ns) AS ns
MATCH (o)-[:HAS_SIGNATURE]->(s:Signature)
WITH p, o.name AS op, s, collect({o: o, kernels: kernels}) AS calls, sum(ns) AS ns
WITH p, op, collect({s: s, calls: calls}) AS signatures, sum(size(calls)) AS calls, sum(ns) AS total
WHERE calls >= p.min_calls
UNWIND signatures AS signature
UNWIND signature.calls AS call
UNWIND call.kernels AS k
WITH op, calls, total, k.kernel AS kernel,
     collect({o: call.o, s: signature.s, same: size(signature.calls), count: k.count, ns: k.ns}) AS found
WHERE size(found) = 1
WITH op, calls, total, kernel, found[0] AS f
RETURN op, kernel, calls, f.same AS same_arguments, f.s.input_dims AS input_dims, f.count AS count,
       f.ns / 1e3 AS gpu_time_us, CASE WHEN total > 0 THEN 100.0 * f.ns / total END AS percent, f.o.uid AS uid
ORDER BY gpu_time_us DESC, uid, kernel
