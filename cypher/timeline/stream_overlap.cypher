// Overlap of streams: how long two streams of a device work at once.
//
// Times are lengths of unions of the intervals of GPU events.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n, for the GPU events that were launched in it; null for all
//   device: index of a device; null for that of the busiest stream
//   stream_a: number of a stream; null for the busiest but stream_b
//   stream_b: number of another stream; null for the busiest but stream_a
//
// Columns:
//   device: index of the device
//   stream_a: number of the first stream
//   events_a: its GPU events
//   busy_a_us: time in which it works, us
//   stream_b: number of the second stream
//   events_b: its GPU events
//   busy_b_us: time in which it works, us
//   both_us: time in which both work, us
//   percent_of_a: both_us as share of busy_a_us, %
//   percent_of_b: both_us as share of busy_b_us, %
WITH {trace: null, step: null, device: null, stream_a: null, stream_b: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent)
WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step) AND k.stream >= 0
  AND k.device IS NOT NULL AND (p.device IS NULL OR k.device = p.device)
WITH p, k ORDER BY k.start_ns
WITH p, k.device AS device, k.stream AS stream, collect([k.start_ns, k.end_ns]) AS events
// The union of intervals in the order of their starts: [its length so far, the end that it reaches to].
WITH p, device, stream, events, reduce(s = [0, 0], e IN events | CASE
    WHEN e[0] >= s[1] THEN [s[0] + e[1] - e[0], e[1]]
    WHEN e[1] > s[1] THEN [s[0] + e[1] - s[1], e[1]]
    ELSE s
  END)[0] AS busy
ORDER BY busy DESC, device, stream
WITH p, collect({device: device, stream: stream, events: events, busy: busy}) AS streams
WITH p, streams, head([s IN streams WHERE (p.stream_a IS NULL OR s.stream = p.stream_a)
    AND (p.stream_b IS NULL OR s.stream <> p.stream_b)]) AS a
WITH a, head([s IN streams WHERE s.device = a.device AND s.stream <> a.stream
    AND (p.stream_b IS NULL OR s.stream = p.stream_b)]) AS b
UNWIND a.events + b.events AS e
WITH a, b, e ORDER BY e[0]
WITH a, b, collect(e) AS events
WITH a, b, a.busy + b.busy - reduce(s = [0, 0], e IN events | CASE
    WHEN e[0] >= s[1] THEN [s[0] + e[1] - e[0], e[1]]
    WHEN e[1] > s[1] THEN [s[0] + e[1] - s[1], e[1]]
    ELSE s
  END)[0] AS both
RETURN a.device AS device, a.stream AS stream_a, size(a.events) AS events_a, a.busy / 1e3 AS busy_a_us,
  b.stream AS stream_b, size(b.events) AS events_b, b.busy / 1e3 AS busy_b_us, both / 1e3 AS both_us,
  CASE WHEN a.busy > 0 THEN 100.0 * both / a.busy END AS percent_of_a,
  CASE WHEN b.busy > 0 THEN 100.0 * both / b.busy END AS percent_of_b
