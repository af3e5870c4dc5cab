// Launch delay: how long launches wait for the GPU, by op or by launch call.
//
// Of a call that launches several GPU events, such as a graph, the first one counts.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   by: 'op' for the op that the GPU event is charged to, 'call' for the runtime call
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   name: op that the work is charged to, or call that launched it
//   launches: calls that launched GPU work
//   delay_mean_us: mean of the times from the start of a call to the start of its first GPU event, us
//   delay_median_us: median of these times, us
//   delay_p99_us: 99 of 100 of these times are not longer, us
//   delay_max_us: greatest of these times, us
//   after_mean_us: mean of the times from the end of a call to the start of its first GPU event, us; negative where
//     that starts before the call returns
//   after_median_us: median of these times, us
//   after_p99_us: 99 of 100 of these times are not longer, us
//   after_max_us: greatest of these times, us
//   longest_uid: uid of the call with the longest delay
WITH {trace: null, by: 'op', step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
WITH p, k
MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall)
WITH p, r, min(k.start_ns) AS start, head(collect(k)) AS k
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op) WHERE p.by = 'op'
WITH r, CASE p.by WHEN 'call' THEN r.name WHEN 'op' THEN coalesce(o.name, '(no op)') END AS name,
     start - r.start_ns AS delay, start - r.end_ns AS after
WHERE name IS NOT NULL
ORDER BY delay DESC, r.pre
WITH name, count(*) AS launches, sum(delay) AS waited, head(collect(r.uid)) AS longest,
     [avg(delay), percentileCont(delay, 0.5), percentileCont(delay, 0.99), max(delay)] AS delay,
     [avg(after), percentileCont(after, 0.5), percentileCont(after, 0.99), max(after)] AS after
RETURN name, launches, delay[0] / 1e3 AS delay_mean_us, delay[1] / 1e3 AS delay_median_us,
       delay[2] / 1e3 AS delay_p99_us, delay[3] / 1e3 AS delay_max_us, after[0] / 1e3 AS after_mean_us,
       after[1] / 1e3 AS after_median_us, after[2] / 1e3 AS after_p99_us, after[3] / 1e3 AS after_max_us,
       longest AS longest_uid
ORDER BY waited DESC, name = '(no op)', name
