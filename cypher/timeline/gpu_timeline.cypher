// GPU timeline: how long the GPU computed, communicated, copied and stood idle.
//
// Times are lengths of unions of intervals over all devices and streams, so that what overlaps counts once, and
// computation + exposed communication + exposed copies + idle = total.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n, for the GPU events that were launched in it; null for all
//
// Columns:
//   type: what the time was spent on
//   time ms: length of the union of the intervals concerned, ms
//   percent: share of total_time, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent)
WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
WITH k ORDER BY k.start_ns
WITH collect([k.start_ns, k.end_ns, k.gpu_class]) AS events, max(k.end_ns) - min(k.start_ns) AS total
// The union of intervals in the order of their starts: [its length so far, the end that it reaches to].
WITH total, [classes IN [
    ['computation'], ['computation', 'communication'], ['computation', 'communication', 'memcpy'],
    ['communication'], ['memcpy']
  ] | reduce(s = [0, 0], e IN [e IN events WHERE e[2] IN classes] |
    CASE
      WHEN e[0] >= s[1] THEN [s[0] + e[1] - e[0], e[1]]
      WHEN e[1] > s[1] THEN [s[0] + e[1] - s[1], e[1]]
      ELSE s
    END)[0]
  ] AS busy
UNWIND [
  ['computation_time', busy[0]],
  ['exposed_comm_time', busy[1] - busy[0]],
  ['exposed_memcpy_time', busy[2] - busy[1]],
  ['busy_time', busy[2]],
  ['idle_time', total - busy[2]],
  ['total_time', total],
  ['total_comm_time', busy[3]],
  ['total_memcpy_time', busy[4]]
] AS row
WITH row, total WHERE total IS NOT NULL
RETURN row[0] AS type, row[1] / 1e6 AS `time ms`, CASE WHEN total > 0 THEN 100.0 * row[1] / total END AS percent
