// GPU time without a launch: which GPU work has no launch in the trace.
//
// What began before the first runtime call of the trace was launched before recording began; for the rest, launches
// were not recorded.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   kind: Kernel, Memcpy or Memset
//   name: name of the GPU events
//   streams: streams that they are on
//   gpu_events: GPU events without a launch in the trace
//   gpu_sum_us: sum of their durations, us
//   percent: share of the sum over all GPU events, %
//   early_events: those that began before the first runtime call of the trace
//   first_start_ms: start of the first of them, as Perfetto UI shows it, ms
//   last_end_ms: end of the last of them, ms
//   uid: the one that starts first
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (t) {
  MATCH (r:RuntimeCall) WHERE r.trace = t.id
  RETURN min(r.start_ns) AS begin
}
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
WITH begin, coalesce(t.lead_ns, 0) AS lead, sum(k.dur_ns) AS whole, collect(CASE WHEN k.owner_rule = 'unlinked' THEN k END) AS events
UNWIND events AS k
WITH begin, lead, whole, k ORDER BY k.start_ns, k.uid
WITH lead, whole, [label IN labels(k) WHERE label IN ['Kernel', 'Memcpy', 'Memset']][0] AS kind, k.name AS name,
     count(DISTINCT [k.device, k.stream]) AS streams, count(*) AS events, sum(k.dur_ns) AS time,
     sum(CASE WHEN k.start_ns < begin THEN 1 ELSE 0 END) AS early, min(k.start_ns) AS first, max(k.end_ns) AS last,
     head(collect(k.uid)) AS uid
RETURN kind, name, streams, events AS gpu_events, time / 1e3 AS gpu_sum_us,
       CASE WHEN whole > 0 THEN 100.0 * time / whole ELSE 0.0 END AS percent, early AS early_events,
       (first + lead) / 1e6 AS first_start_ms, (last + lead) / 1e6 AS last_end_ms, uid
ORDER BY time DESC, first, uid
