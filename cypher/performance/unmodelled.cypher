// Unmodelled time: which GPU time no performance model covers, and why.
//
// Communication is left out.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   op: op that the work is given to, or the runtime call where no op is above the launch
//   reason: why no performance model says what the work costs
//   gpu_events: GPU events without a model
//   gpu_sum_ms: sum of their durations, ms
//   percent: share of the sum over all GPU events, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent)
WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
WITH collect(k) AS events, sum(k.dur_ns) AS whole
UNWIND events AS k
WITH k, whole WHERE k.gpu_class <> 'communication'
OPTIONAL MATCH (k)-[:MODELLED_BY]->(m:Op)
WITH k, whole, m WHERE m IS NULL OR (m.flops IS NULL AND m.moved_bytes IS NULL)
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(c:RuntimeCall)
WITH whole, k.dur_ns AS time, coalesce(m.name, o.name, c.name, '(no launch in trace)') AS op,
  CASE
    WHEN m IS NOT NULL THEN coalesce(m.no_model, 'no model for this operation')
    WHEN o IS NOT NULL THEN 'launched by itself, beside operations with a model that it calls'
    WHEN c IS NOT NULL THEN 'launched outside of operations'
    ELSE 'its launch is not in the trace'
  END AS reason
WITH whole, op, reason, count(*) AS events, sum(time) AS time
RETURN op, reason, events AS gpu_events, time / 1e6 AS gpu_sum_ms,
  CASE WHEN whole > 0 THEN 100.0 * time / whole ELSE 0.0 END AS percent
ORDER BY time DESC, op, reason
