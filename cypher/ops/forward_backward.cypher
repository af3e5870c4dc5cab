// Forward and backward: GPU time of ops in the forward pass against that of their backward passes.
//
// Each GPU event counts for the nearest op above its launch that is linked with the other pass, or that is the engine's
// around such an op, so nested ops share nothing. Two kinds of work are in no row, so percentages may add up to less
// than 100: work of neither pass (optimizer, copies), and recomputed work whose nearest linked op is the backward op
// that has it recomputed. Forward ops that share a backward op, such as instructions of one name in JAX, count as the
// first of them.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   name: forward op
//   forward_calls: calls with GPU work charged to them
//   forward_us: sum of the durations of the GPU events whose nearest linked op above they are, us
//   recomputed_calls: calls that run again what checkpointing dropped
//   recomputed_us: sum of the durations of their GPU events, us
//   backward_calls: backward ops of such calls with GPU work charged to them
//   backward_us: sum of the durations of their GPU events, us
//   ratio: backward_us / forward_us; absent without forward time
//   percent: the three sums together as share of the sum over all GPU events, %
//   uid: smallest uid of the forward ops
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (t) {
  MATCH (:Op {trace: t.id})-[:HAS_BACKWARD]->() RETURN 1 AS linked LIMIT 1
}
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall) WHERE o IS NULL
WITH coalesce(o, r) AS call, coalesce(k.recompute, false) AS again, sum(k.dur_ns) AS time
WITH collect([call, again, time]) AS calls, sum(time) AS whole
UNWIND calls AS charged
WITH charged[0] AS call, charged[1] AS again, charged[2] AS time, whole
WITH again, time, whole, head(COLLECT {
  MATCH (call)<-[:CALLS*0..]-(op:Op) WHERE EXISTS { (op)-[:HAS_BACKWARD]-() }
    OR op.name STARTS WITH 'autograd::engine::evaluate_function' AND EXISTS { (op)-[:CALLS]->()<-[:HAS_BACKWARD]-() }
  RETURN op ORDER BY op.depth DESC LIMIT 1
}) AS op
// What the engine launches beside the backward op that it runs is work of that op.
WITH again, time, whole, CASE WHEN EXISTS { (op)-[:HAS_BACKWARD]-() } THEN op ELSE head(COLLECT {
  MATCH (op)-[:CALLS]->(run) WHERE EXISTS { (run)<-[:HAS_BACKWARD]-() } RETURN run ORDER BY run.pre LIMIT 1
}) END AS op
WHERE op IS NOT NULL AND (op.recompute OR NOT again)
WITH op, sum(time) AS time, whole
WITH op, time, whole, EXISTS { (op)<-[:HAS_BACKWARD]-() } AS backward, coalesce(op.recompute, false) AS again
OPTIONAL MATCH (op)-[:HAS_BACKWARD]->(b:Op) WHERE NOT backward AND NOT again
WITH op, time, whole, backward, again, collect(b) + CASE WHEN backward THEN [op] ELSE [] END AS ends
WITH time, whole, CASE WHEN backward THEN 2 WHEN again THEN 1 ELSE 0 END AS side, coalesce(head(COLLECT {
  UNWIND ends AS b
  MATCH (b)<-[:HAS_BACKWARD]-(f:Op)
  RETURN f ORDER BY coalesce(f.recompute, false), f.start_ns, f.pre LIMIT 1
}), op) AS f
WITH whole, f.name AS name, min(f.uid) AS uid,
     count(CASE side WHEN 0 THEN 1 END) AS forward_calls, sum(CASE side WHEN 0 THEN time ELSE 0 END) AS forward,
     count(CASE side WHEN 1 THEN 1 END) AS recomputed_calls, sum(CASE side WHEN 1 THEN time ELSE 0 END) AS recomputed,
     count(CASE side WHEN 2 THEN 1 END) AS backward_calls, sum(CASE side WHEN 2 THEN time ELSE 0 END) AS backward
RETURN name, forward_calls, forward / 1e3 AS forward_us, recomputed_calls, recomputed / 1e3 AS recomputed_us,
       backward_calls, backward / 1e3 AS backward_us, CASE WHEN forward > 0 THEN 1.0 * backward / forward END AS ratio,
       CASE WHEN whole > 0 THEN 100.0 * (forward + recomputed + backward) / whole ELSE 0.0 END AS percent, uid
ORDER BY forward + recomputed + backward DESC, name
