// GPU time by category of operation: GEMM, elementwise, communication, ...
//
// Time is charged to the op nearest above a launch, to the runtime call where no op is, and to nobody where the
// launch is not in the trace. A call's time is the length of the union of its GPU events.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   op category: kind of operation: that of the kernels with most of its time
//   Count: calls that launched GPU work
//   total_direct_kernel_time_ms: sum over calls of the busy time of the GPU events charged to a call, ms
//   Percentage (%): share of the sum over all rows, %
//   Cumulative Percentage (%): share of this row and those above it, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall) WHERE o IS NULL
WITH coalesce(o, r, k) AS call, k ORDER BY k.start_ns
WITH call, collect([k.start_ns, k.end_ns]) AS events
WITH call, CASE WHEN call:GpuEvent THEN 'unlinked' ELSE call.category END AS category,
     reduce(s = {busy: 0, end: 0}, e IN events | CASE WHEN e[1] <= s.end THEN s ELSE
       {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy AS busy
WITH category, count(*) AS calls, sum(busy) AS direct,
     min([call.start_ns, call.pre, call.uid])[2] AS first
ORDER BY category = 'unlinked', direct DESC, first
WITH collect([category, calls, direct]) AS rows, sum(direct) AS total
UNWIND range(0, size(rows) - 1) AS at
WITH rows[at] AS row, total, reduce(s = 0, above IN rows[..at + 1] | s + above[2]) AS running
RETURN row[0] AS `op category`, row[1] AS Count, row[2] / 1e6 AS total_direct_kernel_time_ms,
       CASE WHEN total > 0 THEN 100.0 * row[2] / total END AS `Percentage (%)`,
       CASE WHEN total > 0 THEN 100.0 * running / total END AS `Cumulative Percentage (%)`
