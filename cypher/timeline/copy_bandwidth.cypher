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
//   gb_per_s: bytes per time of the stretch, GB/s
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
     toInteger(floor(0.5 + sum(CASE WHEN to > from THEN c.rate * (to - from) ELSE 0.0 END))) AS bytes
WITH device, direction, collect({start: start, end: end, bytes: bytes}) AS parts, sum(bytes) AS total
UNWIND parts AS part
RETURN device, direction, part.start / 1e3 AS start_us, part.end / 1e3 AS end_us, part.bytes AS bytes,
       toFloat(part.bytes) / (part.end - part.start) AS gb_per_s
ORDER BY total DESC, device, direction, start_us
