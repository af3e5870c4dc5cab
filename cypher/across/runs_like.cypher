// Runs like one: which traces spent their GPU time on the same kernels as one trace.
//
// The overlap adds up, over all names of kernels, copies and fills, the smaller one of their shares of the GPU time of both
// traces: 100 % for equal shares, 0 % where no name is the same. Traces without events count, too.
//
// Parameters:
//   b: run/name, name or id of a trace; null for the one that was pushed last
//   top: how many are shown; 0 for all
//
// Columns:
//   run: name of the run
//   trace: name of the trace
//   overlap_percent: what both spent on the same, %
//   same_names: names that both have
//   names: names that the other trace has
//   gpu_time_ms: sum of the durations of its GPU events, ms
//   time_percent: the same as share of that of the trace asked about, %
WITH {b: null, top: 20} AS p
MATCH (b:Trace {state: 'complete'})
WHERE p.b IS NULL OR p.b IN [b.id, b.path, b.name]
WITH p, b ORDER BY b.pushed_ns DESC, b.id LIMIT 1
MATCH (t:Trace {state: 'complete'}) WHERE t.id <> b.id AND t.gpu_sum_ns > 0 AND b.gpu_sum_ns > 0
WITH p, b, t, COUNT { (t)-[:SPENT]->(:KernelName) } AS names
CALL (b, t) {
  MATCH (b)-[s:SPENT]->(x:KernelName)<-[o:SPENT]-(t)
  WITH x, 100.0 * s.ns / b.gpu_sum_ns AS here, 100.0 * o.ns / t.gpu_sum_ns AS there ORDER BY x.key
  RETURN sum(CASE WHEN here < there THEN here ELSE there END) AS overlap, count(*) AS same
}
WITH p, b, t, names, overlap, same ORDER BY overlap DESC, t.pushed_ns DESC, t.id
WITH p, collect({t: t, names: names, overlap: overlap, same: same, gpu_ns: t.gpu_sum_ns,
                 percent: 100.0 * t.gpu_sum_ns / b.gpu_sum_ns}) AS found
UNWIND found[..CASE p.top WHEN 0 THEN size(found) ELSE p.top END] AS f
RETURN f.t.run AS run, f.t.name AS trace, f.overlap AS overlap_percent, f.same AS same_names, f.names AS names,
       f.gpu_ns / 1e6 AS gpu_time_ms, f.percent AS time_percent
