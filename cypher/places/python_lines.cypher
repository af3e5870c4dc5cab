// Lines of Python: which line launched how much GPU time.
//
// A GPU event counts for the innermost frame `file(line): function` above its launch: of the user or a model, or else
// of a library. Work of the backward pass counts for the frame of its forward op, or else of the call of the backward
// pass. In profiles of JAX without a frame above it, the line counts that XLA notes for its instruction.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   without: pass over lines whose name holds this text, such as 'utils/', and take the next one above
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   name: `file(line): function`; of an instruction of JAX `file:line`
//   frames: calls of it with GPU work; of an instruction's line its instances
//   gpu_events: GPU events below them
//   gpu_sum_us: sum of their durations, us
//   gpu_busy_us: length of the union of these GPU events, us
//   percent: share of the sum over all GPU events, %
//   uid: the first of these calls or instances
WITH {trace: null, without: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall)
OPTIONAL MATCH (own:Event {trace: t.id, pre: k.line_pre})
OPTIONAL MATCH (own) (()<-[:CALLS]-(x WHERE NOT coalesce(x.code, '') IN ['user', 'library']
                                        OR x.name CONTAINS p.without))*
  ()<-[:CALLS]-(above:PythonFunction
    WHERE p.without IS NOT NULL AND own.name CONTAINS p.without
      AND above.code IN ['user', 'library'] AND NOT above.name CONTAINS p.without)
WITH p, k, r, CASE WHEN p.without IS NULL OR NOT own.name CONTAINS p.without THEN own ELSE above END AS f
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
  WHERE f IS NULL AND o.source IS NOT NULL AND (p.without IS NULL OR NOT o.source CONTAINS p.without)
WITH k, coalesce(f, o) AS f,
     coalesce(f.name, o.source, CASE WHEN r IS NULL THEN '(no launch in trace)' ELSE '(no line of Python)' END) AS name
ORDER BY k.start_ns
WITH name, count(DISTINCT f) AS frames, sum(k.dur_ns) AS time, min(f.pre) AS first,
     collect([k.start_ns, k.end_ns]) AS events, collect(DISTINCT f) AS nodes
WITH name, frames, time, size(events) AS events, [f IN nodes WHERE f.pre = first | f.uid][0] AS uid,
     reduce(s = {busy: 0, end: 0}, e IN events | CASE WHEN e[1] <= s.end THEN s ELSE
       {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy AS busy
WITH collect([name, frames, events, time, busy, uid]) AS rows, sum(time) AS whole
UNWIND rows AS row
RETURN row[0] AS name, row[1] AS frames, row[2] AS gpu_events, row[3] / 1e3 AS gpu_sum_us, row[4] / 1e3 AS gpu_busy_us,
       CASE WHEN whole > 0 THEN 100.0 * row[3] / whole ELSE 0.0 END AS percent, row[5] AS uid
ORDER BY row[5] IS NULL, row[3] DESC, row[0] = '(no launch in trace)', row[0]
