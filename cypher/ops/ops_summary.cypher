// GPU time by operation: which ops the GPU time is charged to.
//
// Time is charged to the op nearest above a launch, to the runtime call where no op is, and to nobody where the
// launch is not in the trace. A call's time is the length of the union of its GPU events.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   name: op nearest above the launch; the runtime call where no op is
//   total_direct_kernel_time_sum: sum over calls of the busy time of the GPU events charged to a call, us
//   total_subtree_kernel_time_sum: sum over calls in no other of the row of the busy time of all GPU events below a
//     call, us
//   total_direct_kernel_time_ms: sum over calls of the busy time of the GPU events charged to a call, ms
//   total_subtree_kernel_time_ms: sum over calls in no other of the row of the busy time of all GPU events below a
//     call, ms
//   Count: calls that launched GPU work
//   Categories: categories of the calls, sorted
//   Percentage (%): share of total_direct_kernel_time_ms in the sum over all rows, %
//   Cumulative Percentage (%): share of this row and those above it, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall) WHERE o IS NULL
WITH p, t, coalesce(o, r, k) AS call, k ORDER BY k.start_ns
WITH p, t, call, collect([k.start_ns, k.end_ns]) AS events
WITH p, t, call, reduce(s = {busy: 0, end: 0}, e IN events | CASE WHEN e[1] <= s.end THEN s ELSE
       {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy AS busy,
     size(events) AS charged
WITH call, CASE WHEN call:GpuEvent THEN '(no launch in trace)' ELSE call.name END AS name,
     CASE WHEN call:GpuEvent THEN 'unlinked' ELSE call.category END AS category,
     busy, CASE
       WHEN EXISTS {
         (call)<-[:CALLS*]-(outer:Op WHERE outer.name = call.name)<-[:CHARGED_TO]-(b)
         WHERE p.step IS NULL OR b.step = p.step
       } THEN 0
       WHEN call:GpuEvent OR call.gpu_events = charged THEN busy
       WHEN p.step IS NULL THEN call.gpu_busy_ns
       ELSE reduce(s = {busy: 0, end: 0}, e IN COLLECT {
         MATCH (b:GpuEvent) WHERE b.trace = t.id AND b.pre > call.pre AND b.pre <= call.last AND b.step = p.step
         WITH b ORDER BY b.start_ns
         RETURN [b.start_ns, b.end_ns]
       } | CASE WHEN e[1] <= s.end THEN s ELSE
         {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy
     END AS subtree
ORDER BY category
WITH name, count(*) AS calls, sum(busy) AS direct, sum(subtree) AS below, collect(DISTINCT category) AS categories,
     min([call.start_ns, call.pre, call.uid])[2] AS first
ORDER BY categories = ['unlinked'], direct DESC, first
WITH collect([name, direct, below, calls, categories]) AS rows, sum(direct) AS total
UNWIND range(0, size(rows) - 1) AS at
WITH rows[at] AS row, total, reduce(s = 0, above IN rows[..at + 1] | s + above[1]) AS running
RETURN row[0] AS name, row[1] / 1e3 AS total_direct_kernel_time_sum, row[2] / 1e3 AS total_subtree_kernel_time_sum,
       row[1] / 1e6 AS total_direct_kernel_time_ms, row[2] / 1e6 AS total_subtree_kernel_time_ms,
       row[3] AS Count, row[4] AS Categories, CASE WHEN total > 0 THEN 100.0 * row[1] / total END AS `Percentage (%)`,
       CASE WHEN total > 0 THEN 100.0 * running / total END AS `Cumulative Percentage (%)`
