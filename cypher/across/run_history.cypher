// Run history: how long the GPU took in each of many traces, and what changed from one to the next.
//
// Traces are in the order of pushing. With a label, only traces that have it count, in the order of its values if all
// are numbers, versions or dates. Changes are against the row above, so give a name where runs hold several traces.
// Traces without events count, too.
//
// Parameters:
//   label: key of a label, such as commit; null for the order of pushing
//   run: only traces of this run; null for all
//   named: only traces of this name, such as rank0; null for all
//
// Columns:
//   label_value: value of the label asked for
//   run: name of the run
//   trace: name of the trace
//   gpu_total_ms: from the first start to the last end of a GPU event, ms
//   gpu_busy_ms: any GPU event runs, ms
//   computation_ms: a computation kernel or a fill runs, ms
//   exposed_comm_ms: communication runs and no computation, ms
//   idle_percent: share of the total in which nothing runs, %
//   total_change_percent: change of the total against the trace before, %
//   busy_change_percent: change of the busy time against the trace before, %
WITH {label: null, run: null, named: null} AS p
CALL (p) {
  MATCH (t:Trace {state: 'complete'})
  WITH t['label_' + p.label] AS v WHERE v IS NOT NULL
  RETURN count(CASE WHEN v IS :: INTEGER | FLOAT THEN null ELSE 1 END) = 0 AS numbers,
         count(CASE WHEN toString(v) =~ 'v?[0-9]+([.-][0-9]+)*([+].*)?' THEN null ELSE 1 END) = 0 AS versions
}
MATCH (t:Trace {state: 'complete'})
WHERE (p.run IS NULL OR t.run = p.run) AND (p.named IS NULL OR t.name = p.named)
WITH *, toString(t['label_' + p.label]) AS value
WHERE p.label IS NULL OR value IS NOT NULL
WITH t, value, coalesce(t.gpu_total_ns, 0) AS total, coalesce(t.gpu_busy_ns, 0) AS busy,
     CASE WHEN numbers THEN [toFloat(value)]
          WHEN versions THEN [part IN split(replace(replace(split(value, '+')[0], '-', '.'), 'v', ''), '.') | toFloat(part)]
         END AS place
ORDER BY place, t.pushed_ns, t.id
WITH collect({
  value: value, run: t.run, trace: t.name, total: total / 1e6, busy: busy / 1e6,
  computation: coalesce(t.computation_ns, 0) / 1e6, exposed: coalesce(t.exposed_comm_ns, 0) / 1e6,
  idle: CASE WHEN total > 0 THEN 100.0 * (total - busy) / total END
}) AS rows
UNWIND range(0, size(rows) - 1) AS i
WITH rows[i] AS r, CASE WHEN i > 0 THEN rows[i - 1] END AS before
RETURN r.value AS label_value, r.run AS run, r.trace AS trace,
       r.total AS gpu_total_ms, r.busy AS gpu_busy_ms, r.computation AS computation_ms, r.exposed AS exposed_comm_ms,
       r.idle AS idle_percent,
       CASE WHEN before.total > 0 THEN 100 * (r.total - before.total) / before.total END AS total_change_percent,
       CASE WHEN before.busy > 0 THEN 100 * (r.busy - before.busy) / before.busy END AS busy_change_percent
