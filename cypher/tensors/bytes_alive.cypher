// Bytes alive: sizes of storages that are alive at moments in equal distances, by device.
//
// A storage is alive from the start of the op that allocated it (from the trace's start if that was not seen) to the end
// of the last op that uses it: releases are not recorded. Only traces that were linked with their execution trace have
// tensors.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   points: number of moments, from the trace's start
//
// Columns:
//   device: device, such as cuda:0
//   at_us: the moment, counted from the zero of Perfetto UI, us
//   bytes: sum of the sizes of the storages alive then, B
//   storages: number of these
//   percent_of_peak: the same as share of the greatest sum at any moment, %
WITH {trace: null, points: 20} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (s:Storage) WHERE s.trace = t.id
UNWIND [[s.start_ns, s.bytes], [s.end_ns, -s.bytes]] AS change
WITH p, t, s, change ORDER BY change[0], change[1]
WITH p, t, s.on AS device, collect(DISTINCT s) AS storages, collect(change[1]) AS changes
WITH *, reduce(state = [0, 0], change IN changes | [state[0] + change,
    CASE WHEN state[0] + change > state[1] THEN state[0] + change ELSE state[1] END])[1] AS peak
UNWIND [i IN range(0, p.points - 1) | t.dur_ns * i / p.points] AS moment
WITH t, device, moment, peak, [s IN storages WHERE s.start_ns <= moment AND moment < s.end_ns | s.bytes] AS alive
WITH t, device, moment, peak, size(alive) AS storages, reduce(total = 0, bytes IN alive | total + bytes) AS bytes
RETURN device, (moment + coalesce(t.lead_ns, 0)) / 1e3 AS at_us, bytes, storages,
       100.0 * bytes / CASE WHEN peak > 0 THEN peak ELSE 1 END AS percent_of_peak
ORDER BY device, moment
