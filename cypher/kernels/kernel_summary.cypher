// GPU time by kernel: how long the kernels ran, by launching op, kernel and stream.
//
// Kernels only; copies and fills are left out.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   Parent op category: category of the launching op, or of the runtime call where no op is
//   Parent cpu_op: op nearest above the launch; the runtime call where no op is
//   Kernel name: name of the kernel
//   Kernel stream: stream on the device
//   Kernel duration (µs)_sum: sum of the durations, us
//   Kernel duration (µs)_count: number of kernels
//   Kernel duration (µs)_mean: mean of the durations, us
//   Kernel duration (µs)_min: smallest duration, us
//   Kernel duration (µs)_max: greatest duration, us
//   Percent of kernels time (%): share of the sum over all kernels, %
//   Percent of total time (%): sum as share of the time from the first to the last GPU event, %
//   ex_UID: uid of the first kernel
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
WITH collect(k) AS events, max(k.end_ns) - min(k.start_ns) AS span,
     sum(CASE WHEN k:Kernel THEN k.dur_ns END) AS whole
UNWIND events AS k
WITH k, span, whole WHERE k:Kernel
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall) WHERE o IS NULL
WITH k, span, whole, coalesce(o, r) AS call,
     coalesce(o.category, r.category, 'unlinked') AS category
ORDER BY call.start_ns, call.pre, k.pre
WITH span, whole, category, coalesce(call.name, '(no launch in trace)') AS parent, k.name AS kernel,
     CASE WHEN k.stream >= 0 THEN k.stream END AS stream,
     sum(k.dur_ns) AS time, count(*) AS kernels, avg(k.dur_ns) AS mean, min(k.dur_ns) AS least, max(k.dur_ns) AS most,
     head(collect(k.uid)) AS first
RETURN category AS `Parent op category`, parent AS `Parent cpu_op`, kernel AS `Kernel name`, stream AS `Kernel stream`,
       time / 1e3 AS `Kernel duration (µs)_sum`, kernels AS `Kernel duration (µs)_count`,
       mean / 1e3 AS `Kernel duration (µs)_mean`, least / 1e3 AS `Kernel duration (µs)_min`,
       most / 1e3 AS `Kernel duration (µs)_max`,
       CASE WHEN whole > 0 THEN 100.0 * time / whole ELSE 0.0 END AS `Percent of kernels time (%)`,
       CASE WHEN span > 0 THEN 100.0 * time / span ELSE 0.0 END AS `Percent of total time (%)`,
       first AS ex_UID
ORDER BY time DESC, first
