// Modules of a signature: which modules hold the GPU work of an op with certain arguments.
//
// The work of an op is all that was launched below it. Work of a backward pass belongs to the module that called the
// forward op, with what the engine of autograd launches beside the backward op that it runs.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   op: name of the op; null for the op and sizes that launched the most GPU time
//   input_dims: sizes of its inputs, JSON such as [[128,64],[64]]; null for all
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   op: name of the op
//   input_dims: sizes of its inputs, JSON; absent where none were recorded
//   module: innermost nn.Module around the work; absent for none
//   inside: the nn.Module around that one
//   backward: whether it is work of the backward pass
//   gpu_events: number of GPU events
//   gpu_time_us: sum of their durations, us
//   percent: share of the GPU time of the op with these sizes, %
//   uid: the first call of the module
WITH {trace: null, op: null, input_dims: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
WITH p, t, CASE WHEN p.op IS NOT NULL THEN {op: p.op, dims: p.input_dims} ELSE head(COLLECT {
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  MATCH (k)-[:CHARGED_TO]->(o:Op)
  WITH o, sum(k.dur_ns) AS ns
  MATCH (o)-[:HAS_SIGNATURE]->(s:Signature)
  WHERE p.input_dims IS NULL OR replace(s.input_dims, ' ', '') = replace(p.input_dims, ' ', '')
  WITH o.name AS op, s.input_dims AS dims, sum(ns) AS ns, min(o.pre) AS pre
  RETURN {op: op, dims: dims} ORDER BY ns DESC, pre LIMIT 1
}) END AS asked
MATCH (o:Op) WHERE o.trace = t.id AND o.name = asked.op AND o.gpu_events > 0
MATCH (o)-[:HAS_SIGNATURE]->(s:Signature)
WHERE asked.dims IS NULL OR replace(s.input_dims, ' ', '') = replace(asked.dims, ' ', '')
MATCH (k:GpuEvent) WHERE k.trace = o.trace AND k.pre > o.pre AND k.pre <= o.last AND (p.step IS NULL OR k.step = p.step)
WITH DISTINCT o.name AS op, s.input_dims AS input_dims, k
WITH op, input_dims, collect(k) AS work, sum(k.dur_ns) AS ns
WITH {op: op, input_dims: input_dims, ns: ns} AS f, work
UNWIND work AS k
WITH f, k, head(COLLECT {
  MATCH (k)<-[:LAUNCHES|RAN_AS|CALLS*]-(a) WHERE a:Module OR EXISTS { (a)<-[:HAS_BACKWARD]-() }
    OR a.name STARTS WITH 'autograd::engine::evaluate_function' AND EXISTS { (a)-[:CALLS]->()<-[:HAS_BACKWARD]-() }
  RETURN a ORDER BY a.depth DESC LIMIT 1
}) AS a
WITH f, a, NOT coalesce(a:Module, true) AS backward, count(*) AS events, sum(k.dur_ns) AS ns
WITH f, backward, events, ns, CASE WHEN backward THEN head(COLLECT {
  MATCH (a)-[:CALLS*0..1]->(run)<-[:HAS_BACKWARD]-(b:Op) WITH b ORDER BY run.depth, run.pre, b.start_ns, b.pre LIMIT 1
  MATCH (b)<-[:CALLS*]-(m:Module) RETURN m ORDER BY m.depth DESC LIMIT 1
}) ELSE a END AS m
WITH f, backward, m, sum(events) AS events, sum(ns) AS ns
WITH f, backward, m, events, ns, head(COLLECT {
  MATCH (m)<-[:CALLS*]-(n:Module) RETURN n.name ORDER BY n.depth DESC LIMIT 1
}) AS inside
WITH f.op AS op, f.input_dims AS input_dims, m.name AS module, inside, backward, sum(events) AS gpu_events,
     sum(ns) AS ns, f.ns AS total, min(m.uid) AS uid
RETURN op, input_dims, module, inside, backward, gpu_events, ns / 1e3 AS gpu_time_us,
       CASE WHEN total > 0 THEN 100.0 * ns / total END AS percent, uid
ORDER BY total DESC, input_dims, gpu_time_us DESC, uid
