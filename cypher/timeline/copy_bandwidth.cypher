// Bandwidth of copies over time: how fast copies and fills move bytes, by direction.
//
// The bytes of a copy are spread evenly over its duration. Copies without recorded bytes, and those that last 0 ns, are
// left out. The time from the first start to the last end is shown in equal stretches.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   points: number of stretches, 1 or more
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   device: index of the device
//   direction: H is the host, D a device, P another device; fill for fills, else unknown
//   start_us: when the stretch begins, counted from the zero of Perfetto UI, us
//   end_us: when it ends, us
//   bytes: bytes moved in the stretch, to whole ones, B
//   busy_us: time of it in which a copy of the direction runs, us
//   gb_per_s: bytes per time of the stretch, GB/s
//   max_gb_per_s: greatest rate of all copies that run at once, GB/s
WITH {trace: null, points: 20, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
WITH p, t, k, k:Memcpy OR k:Memset AS copies
WHERE copies AND k.bytes >= 0 AND k.dur_ns > 0
WITH p, t, collect({device: k.device, start: k.start_ns, end: k.end_ns, rate: toFloat(k.bytes) / k.dur_ns, direction:
       CASE WHEN k:Memset THEN 'fill'
            WHEN k.name CONTAINS 'HtoD' OR k.name CONTAINS 'HOST_TO_DEVICE' OR k.name CONTAINS 'HostToDevice'
                 OR k.name CONTAINS 'pyH2D' THEN 'HtoD'
            WHEN k.name CONTAINS 'DtoH' OR k.name CONTAINS 'DEVICE_TO_HOST' OR k.name CONTAINS 'DeviceToHost'
                 OR k.name CONTAINS 'pyD2H' THEN 'DtoH'
            WHEN k.name CONTAINS 'DtoD' OR k.name CONTAINS 'DEVICE_TO_DEVICE' OR k.name CONTAINS 'DeviceToDevice'
                 OR k.name CONTAINS 'pyD2D' THEN 'DtoD'
            WHEN k.name CONTAINS 'HtoH' OR k.name CONTAINS 'HOST_TO_HOST' OR k.name CONTAINS 'HostToHost'
                 OR k.name CONTAINS 'pyH2H' THEN 'HtoH'
            WHEN k.name CONTAINS 'PtoP' OR k.name CONTAINS 'PeerToPeer' OR k.name CONTAINS 'pyP2P' THEN 'PtoP'
            ELSE 'unknown' END}) AS copies, min(k.start_ns) AS begin, max(k.end_ns) AS end
WITH t, copies, [i IN range(0, p.points) | begin + (end - begin) * i / p.points] AS edges
UNWIND range(0, size(edges) - 2) AS i
WITH t, copies, edges[i] AS low, edges[i + 1] AS high
WHERE high > low
UNWIND copies AS c
WITH t, low, high, c, CASE WHEN c.start > low THEN c.start ELSE low END AS from,
     CASE WHEN c.end < high THEN c.end ELSE high END AS to, coalesce(t.lead_ns, 0) AS lead
WITH c.device AS device, c.direction AS direction, low + lead AS start, high + lead AS end,
     toInteger(floor(0.5 + sum(CASE WHEN to > from THEN c.rate * (to - from) ELSE 0.0 END))) AS bytes,
     collect(CASE WHEN to > from THEN [from, to, c.rate] END) AS spans
CALL (spans) {
  UNWIND spans AS span
  UNWIND [[span[0], 1, span[2]], [span[1], -1, -span[2]]] AS change
  WITH change ORDER BY change[0], change[1]
  WITH collect(change) AS changes
  // Over time: how many copies run and their rate, the greatest one, the last moment, and how long any ran so far.
  RETURN reduce(s = {running: 0, rate: 0.0, most: 0.0, since: 0, busy: 0}, c IN changes | {
    running: s.running + c[1],
    rate: CASE WHEN s.running + c[1] > 0 THEN s.rate + c[2] ELSE 0.0 END,
    most: CASE WHEN s.running + c[1] > 0 AND s.rate + c[2] > s.most THEN s.rate + c[2] ELSE s.most END,
    since: c[0],
    busy: s.busy + CASE WHEN s.running > 0 THEN c[0] - s.since ELSE 0 END
  }) AS course
}
WITH device, direction, collect({start: start, end: end, bytes: bytes, course: course}) AS parts, sum(bytes) AS total
UNWIND parts AS part
RETURN device, direction, part.start / 1e3 AS start_us, part.end / 1e3 AS end_us, part.bytes AS bytes,
       part.course.busy / 1e3 AS busy_us, toFloat(part.bytes) / (part.end - part.start) AS gb_per_s,
       part.course.most AS max_gb_per_s
ORDER BY total DESC, device, direction, start_us
