// Queues of streams over time: how the queue of each stream grows and shrinks.
//
// A GPU event is in the queue of its stream from the start of its launch call to its own start. The time from the first
// change of a queue to the last is shown in equal stretches.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   capacity: from which length on a queue is full
//   points: number of stretches, 1 or more
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   device: index of the device
//   stream: number of the stream
//   start_us: when the stretch begins, counted from the zero of Perfetto UI, us
//   end_us: when it ends, us
//   mean_length: mean length of the queue in the stretch
//   max_length: greatest length in it
//   full_us: time of it in which the length is `capacity` or more, us
WITH {trace: null, capacity: 1024, points: 20, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall) WHERE k.start_ns > r.start_ns
WITH p, t, collect({device: k.device, stream: k.stream, launch: r.start_ns, start: k.start_ns}) AS queued,
     min(r.start_ns) AS begin, max(k.start_ns) AS end
WITH p, t, queued, [i IN range(0, p.points) | begin + (end - begin) * i / p.points] AS edges
UNWIND range(0, size(edges) - 2) AS i
WITH p, t, queued, edges[i] AS low, edges[i + 1] AS high
WHERE high > low
UNWIND queued AS e
// What is in the queue in a stretch, as changes: at its beginning, or within it.
WITH p, t, low, high, e.device AS device, e.stream AS stream,
     CASE WHEN e.launch > low THEN e.launch ELSE low END AS entered,
     CASE WHEN e.start < high THEN e.start ELSE high END AS left
WITH p, t, low, high, device, stream, sum(CASE WHEN left > entered THEN left - entered ELSE 0 END) AS waited,
     collect(CASE WHEN left > entered THEN [entered, left] END) AS spans
CALL (p, spans) {
  UNWIND spans AS span
  UNWIND [[span[0], 1], [span[1], -1]] AS change
  WITH change ORDER BY change[0], change[1]
  WITH collect(change) AS changes
  RETURN reduce(s = {length: 0, most: 0, since: 0, full: 0}, c IN changes | {
    length: s.length + c[1],
    most: CASE WHEN s.length + c[1] > s.most THEN s.length + c[1] ELSE s.most END,
    since: c[0],
    full: s.full + CASE WHEN s.length >= p.capacity THEN c[0] - s.since ELSE 0 END
  }) AS course
}
WITH *, coalesce(t.lead_ns, 0) AS lead
WITH device, stream, max(course.most) AS longest,
     collect({start: low + lead, end: high + lead, mean: toFloat(waited) / (high - low), course: course}) AS parts
UNWIND parts AS part
RETURN device, stream, part.start / 1e3 AS start_us, part.end / 1e3 AS end_us, part.mean AS mean_length,
       part.course.most AS max_length, part.course.full / 1e3 AS full_us
ORDER BY longest DESC, device, stream, start_us
