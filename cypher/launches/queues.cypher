// Queues of streams: how much launched work waits on each, and for how long a queue is full.
//
// A GPU event is in the queue of its stream from the start of its launch call to its own start; every event of a
// replayed graph is. Events without a launch in the trace are in none.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   capacity: from which length on a queue is full
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   device: index of the device
//   stream: number of the stream
//   gpu_events: GPU events of the stream whose launch is in the trace
//   waited: those that began after their launch call did, so that they were in the queue
//   mean_length: mean length of the queue over time, from the first launch to the start of the last event
//   max_length: greatest length of the queue
//   max_us: the first moment of this length, counted from the zero of Perfetto UI, us
//   mean_wait_us: mean time of those that waited from the start of the call to their own, us
//   full_us: time in which the queue has the length `capacity` or more, us
//   full_percent: full_us as share of the time from the first launch to the last start, %
//   blocked_us: time that calls which launch on the stream take while its queue is full, us
WITH {trace: null, capacity: 1024, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall)
WITH p, t, k.device AS device, k.stream AS stream, collect([r.start_ns, k.start_ns]) AS events,
     collect(DISTINCT r) AS calls, max(k.start_ns) - min(r.start_ns) AS span
WITH *, [e IN events WHERE e[1] > e[0]] AS queued
WITH *, reduce(ns = 0, e IN queued | ns + e[1] - e[0]) AS waits
CALL (p, queued, calls) {
  // When something enters and leaves the queue, and when a call begins and ends.
  UNWIND [e IN queued | [e[0], 1, 0]] + [e IN queued | [e[1], -1, 0]]
         + [c IN calls | [c.start_ns, 0, -1]] + [c IN calls | [c.start_ns + c.dur_ns, 0, 1]] AS change
  WITH p, change ORDER BY change[0], change[1]
  WITH p, collect(change) AS changes
  // Over time: the length, the greatest one and its moment, the last moment, how long it was full so far, and how long
  // that was from the begin of each call to its end.
  RETURN reduce(s = {length: 0, most: 0, at: null, since: 0, full: 0, blocked: 0}, c IN changes | {
    length: s.length + c[1],
    most: CASE WHEN s.length + c[1] > s.most THEN s.length + c[1] ELSE s.most END,
    at: CASE WHEN s.length + c[1] > s.most THEN c[0] ELSE s.at END,
    since: c[0],
    full: s.full + CASE WHEN s.length >= p.capacity THEN c[0] - s.since ELSE 0 END,
    blocked: s.blocked + c[2] * (s.full + CASE WHEN s.length >= p.capacity THEN c[0] - s.since ELSE 0 END)
  }) AS s
}
WITH *, size(queued) AS waited
RETURN device, stream, size(events) AS gpu_events, waited,
       CASE WHEN span > 0 THEN toFloat(waits) / span END AS mean_length,
       s.most AS max_length, (s.at + coalesce(t.lead_ns, 0)) / 1e3 AS max_us,
       CASE WHEN waited > 0 THEN waits / 1e3 / waited END AS mean_wait_us, s.full / 1e3 AS full_us,
       CASE WHEN span > 0 THEN 100.0 * s.full / span END AS full_percent, s.blocked / 1e3 AS blocked_us
ORDER BY max_length DESC, device, stream
