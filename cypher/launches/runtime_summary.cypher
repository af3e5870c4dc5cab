// Runtime and driver calls: what they cost the host, what they launched, how long that took to start.
//
// The delay of a call is the start of its first GPU event minus the start of the call; negative where clocks differ.
// JAX marks a call of a compiled function twice, one inside the other; the inner PjitFunction(f) does not count.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   name: runtime or driver call; a line in brackets stands for GPU events without a launch in the trace
//   calls: number of calls
//   host_sum_us: sum of the durations of the calls, us
//   host_mean_us: mean of the durations, us
//   host_median_us: median of the durations, us
//   host_max_us: greatest duration, us
//   host_self_us: sum of the durations without that of calls inside them, us
//   gpu_events: GPU events that the calls launched
//   gpu_sum_us: sum of the durations of these, us
//   calls_without_gpu: calls that launched no GPU event
//   delay_min_us: smallest delay, us
//   delay_median_us: median of the delays, us
//   delay_p90_us: nine tenths of the delays are not longer, us
//   delay_max_us: greatest delay, us
//   longest_uid: uid of the longest call
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (r:RuntimeCall) WHERE r.trace = t.id AND (p.step IS NULL OR r.step = p.step)
  WITH r, r.name STARTS WITH 'PjitFunction(' AND EXISTS { (:RuntimeCall {name: r.name})-[:CALLS]->(r) } AS again,
       COLLECT { MATCH (r)-[:CALLS]->(i) WITH i ORDER BY i.start_ns
                 RETURN [i.start_ns, CASE WHEN i.end_ns < r.end_ns THEN i.end_ns ELSE r.end_ns END] } AS events
  WITH r, again, reduce(s = {busy: 0, end: 0}, e IN events | CASE WHEN e[1] <= s.end THEN s ELSE
         {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy AS inside
  OPTIONAL MATCH (r)-[:LAUNCHES]->(k:GpuEvent)
  WITH r, again, inside, count(k) AS launched, sum(k.dur_ns) AS work, min(k.start_ns) - r.start_ns AS delay
  ORDER BY r.dur_ns DESC, r.pre DESC
  WITH *, CASE WHEN again THEN null ELSE r.dur_ns END AS took
  WITH r.name AS name, count(took) AS calls, sum(took) AS host, sum(r.dur_ns - inside) AS self,
       [avg(took), percentileCont(took, 0.5), max(took)] AS durations,
       sum(launched) AS events, sum(work) AS work,
       sum(CASE WHEN launched = 0 AND NOT again THEN 1 ELSE 0 END) AS idle,
       [min(delay), percentileCont(delay, 0.5), percentileCont(delay, 0.9), max(delay)] AS delays,
       head(collect(CASE WHEN again THEN null ELSE r.uid END)) AS longest
  RETURN *, 0 AS last
  UNION ALL
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
    AND k.owner_rule = 'unlinked'
  WITH count(*) AS events, sum(k.dur_ns) AS work
  WHERE events > 0
  RETURN '(no launch in trace)' AS name, 0 AS calls, 0 AS host, 0 AS self, [] AS durations, events, work, 0 AS idle,
         [] AS delays, null AS longest, 1 AS last
}
RETURN name, calls, host / 1e3 AS host_sum_us, durations[0] / 1e3 AS host_mean_us, durations[1] / 1e3 AS host_median_us,
       durations[2] / 1e3 AS host_max_us, self / 1e3 AS host_self_us, events AS gpu_events, work / 1e3 AS gpu_sum_us,
       idle AS calls_without_gpu, delays[0] / 1e3 AS delay_min_us, delays[1] / 1e3 AS delay_median_us,
       delays[2] / 1e3 AS delay_p90_us, delays[3] / 1e3 AS delay_max_us, longest AS longest_uid
ORDER BY last, host DESC, work DESC, name
