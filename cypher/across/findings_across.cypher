// Findings of many traces: what their verdicts say, in how many of them, and where it costs most.
//
// A finding has one id in all traces, such as data-loader or kernels@compute.gemm. Traces without events count, too.
//
// Parameters:
//   run: only traces of this run; null for all
//   named: only traces of this name, such as rank0; null for all
//
// Columns:
//   finding: its id
//   topic: what it is about
//   traces: number of traces whose verdicts say it
//   percent_of_traces: share of all traces, %
//   mean_percent: mean of its share, of those that have one, %
//   max_percent: greatest share, %
//   percent_of: what that is a share of, such as gpu_time or steps
//   worst_run: run of the trace with the greatest share; of equal ones, or without any, the first pushed
//   worst_trace: name of that trace
//   text: what the verdict on it says
WITH {run: null, named: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE (p.run IS NULL OR t.run = p.run) AND (p.named IS NULL OR t.name = p.named)
WITH collect(t) AS traces
UNWIND traces AS t
MATCH (t)-[s:SHOWS]->(f:Finding)
WITH size(traces) AS many, f, t, s ORDER BY coalesce(s.percent, -1) DESC, t.pushed_ns, t.id
WITH many, f, count(*) AS count, avg(s.percent) AS mean, max(s.percent) AS most, collect({t: t, s: s})[0] AS worst
RETURN f.name AS finding, f.topic AS topic, count AS traces, 100.0 * count / many AS percent_of_traces,
       mean AS mean_percent, most AS max_percent, worst.s.percent_of AS percent_of, worst.t.run AS worst_run, worst.t.name AS worst_trace,
       worst.s.text AS text
ORDER BY traces DESC, finding
