// Sequences of kernels: which ones ops and modules launch again and again.
//
// Calls of one name are alike if the names of the GPU events below them are, in the order of their starts.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   contains: text in the names of ops or modules, where the outermost of nested calls counts; '' for all names, where
//     the innermost calls with enough GPU events count
//   min_kernels: GPU events that a sequence has at least
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   op: name of the op or module
//   kernels: number of its GPU events
//   count: calls of the op with this sequence
//   gpu_time_us: sum of the durations of the GPU events, us
//   percent: share of the GPU time, the sum of the durations of all GPU events, %
//   host_us: sum of the durations of the calls, us
//   between_us: time from the first start to the last end of the GPU events of a call in which none of them runs, us
//   uid: the first of the calls
//   sequence: names of the GPU events in the order in which they start
WITH {trace: null, contains: '', min_kernels: 2, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  RETURN sum(k.dur_ns) AS total
}
CALL (p, t) {
  MATCH (o:Op) WHERE o.trace = t.id AND o.gpu_events >= p.min_kernels AND o.name CONTAINS p.contains RETURN o
  UNION ALL
  MATCH (o:Module) WHERE o.trace = t.id AND o.gpu_events >= p.min_kernels AND o.name CONTAINS p.contains RETURN o
}
WITH p, t, total, o
WHERE (p.step IS NULL OR o.step = p.step)
  AND CASE WHEN p.contains = '' THEN NOT EXISTS { (o)-[:CALLS*]->(i:Op|Module) WHERE i.gpu_events >= p.min_kernels }
           ELSE NOT EXISTS { (o)<-[:CALLS*]-(a:Op|Module) WHERE a.name CONTAINS p.contains } END
MATCH (k:GpuEvent) WHERE k.trace = t.id AND k.pre > o.pre AND k.pre <= o.last AND (p.step IS NULL OR k.step = p.step)
WITH p, total, o, k ORDER BY k.start_ns, k.pre
WITH p, total, o, collect(k.name) AS sequence, collect([k.start_ns, k.end_ns]) AS events, sum(k.dur_ns) AS ns
WHERE size(sequence) >= p.min_kernels
MATCH (o)-[:INSTANCE_OF]->(c:SubtreeClass)
// The time so far in which nothing ran, and the latest end.
WITH total, o, c, sequence, ns, reduce(s = [0, events[0][0]], e IN events | [
    s[0] + CASE WHEN e[0] > s[1] THEN e[0] - s[1] ELSE 0 END, CASE WHEN e[1] > s[1] THEN e[1] ELSE s[1] END])[0] AS idle
ORDER BY o.pre
WITH total, c.name AS op, sequence, count(*) AS count, sum(ns) AS ns, sum(o.dur_ns) AS host, sum(idle) AS idle,
     head(collect(o)) AS first
RETURN op, size(sequence) AS kernels, count, ns / 1e3 AS gpu_time_us,
       CASE WHEN total > 0 THEN 100.0 * ns / total END AS percent, host / 1e3 AS host_us, idle / 1e3 AS between_us,
       first.uid AS uid, sequence
ORDER BY ns DESC, first.pre
