// Unlinked GPU work by stream: how much of each stream's time is charged to nobody, its launch not being in the trace.
//
// Tables of ops and modules lack this time. `unlaunched_gpu_time` names the kernels.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   device: index of the device
//   stream: number of the stream
//   gpu_events: GPU events of the stream
//   unlinked_events: those without a launch in the trace
//   gpu_sum_us: sum of the durations of all of them, us
//   unlinked_us: sum of the durations of those without a launch, us
//   percent_of_stream: unlinked_us as share of gpu_sum_us, %
//   percent: unlinked_us as share of the sum over all GPU events, %
//   first_linked_ms: start of the first that has a launch, as Perfetto UI shows it, ms
//   last_unlinked_ms: start of the last that has none, ms
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent)
WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
WITH coalesce(t.lead_ns, 0) AS lead, k.device AS device, k.stream AS stream, count(*) AS events, sum(k.dur_ns) AS time,
  sum(CASE WHEN k.owner_rule = 'unlinked' THEN 1 ELSE 0 END) AS lone,
  sum(CASE WHEN k.owner_rule = 'unlinked' THEN k.dur_ns ELSE 0 END) AS lost,
  min(CASE WHEN k.owner_rule <> 'unlinked' THEN k.start_ns END) AS first_linked,
  max(CASE WHEN k.owner_rule = 'unlinked' THEN k.start_ns END) AS last_lone
WITH lead, collect({
    device: device, stream: stream, events: events, time: time, lone: lone, lost: lost,
    first: first_linked, last: last_lone
  }) AS streams, sum(time) AS whole
UNWIND streams AS s
RETURN s.device AS device, s.stream AS stream, s.events AS gpu_events, s.lone AS unlinked_events,
  s.time / 1e3 AS gpu_sum_us, s.lost / 1e3 AS unlinked_us,
  CASE WHEN s.time > 0 THEN 100.0 * s.lost / s.time END AS percent_of_stream,
  CASE WHEN whole > 0 THEN 100.0 * s.lost / whole END AS percent,
  (s.first + lead) / 1e6 AS first_linked_ms, (s.last + lead) / 1e6 AS last_unlinked_ms
ORDER BY unlinked_us DESC, device, stream
