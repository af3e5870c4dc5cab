// Steps: how long each step took, and what the GPU did for it.
//
// A GPU event belongs to the step in which it was launched, also where it runs after the step has ended on the host.
// Times are lengths of unions of intervals over all devices and streams.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//
// Columns:
//   name: step; a line in brackets stands for GPU events launched in no step
//   step: number of the step
//   pid: process of the step
//   start_ms: start of the step on the host, as Perfetto UI shows it, ms
//   host_step_ms: duration of the step on the host, ms
//   device_step_ms: from the first start of its GPU work to the first start of that of later steps; of the last to the end of its work, ms
//   gpu_events: GPU events launched in the step
//   gpu_sum_ms: sum of their durations, ms
//   computation_time_ms: time in which one of them computes, ms
//   exposed_comm_time_ms: time in which one of them communicates and none computes, ms
//   exposed_memcpy_time_ms: time in which one of them copies and none computes or communicates, ms
//   busy_time_ms: time in which any of them runs, ms
//   idle_time_ms: total_time_ms without busy_time_ms, ms
//   total_time_ms: from the first start to the last end of one of them, ms
//   busy_percent: part of device_step_ms in which a GPU event runs, of whatever step, %
//   uid: uid of the step
WITH {trace: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (s:Step)
WHERE s.trace = t.id
MATCH (h:Thread {trace: t.id, number: s.thread})
WITH t, s, h ORDER BY s.start_ns DESC, s.pre DESC
WITH t, collect({
  name: s.name, number: toIntegerOrNull(last(split(s.name, '#'))), pid: h.pid, start: s.start_ns, end: s.end_ns,
  shown: s.start_ns + coalesce(t.lead_ns, 0), time: s.dur_ns, uid: s.uid
}) AS steps
CALL (t, steps) {
  MATCH (k:GpuEvent)
  WHERE k.trace = t.id
  OPTIONAL MATCH (k)<-[:LAUNCHES]-(c:RuntimeCall)
  OPTIONAL MATCH (h:Thread {trace: t.id, number: c.thread})
  WITH steps, k.step AS number, h.pid AS pid,
    collect({start: k.start_ns, end: k.end_ns, does: k.gpu_class, time: k.dur_ns, launched: c.start_ns}) AS events
  // Several processes have steps of one number, and so may one process, if it was recorded twice.
  WITH events, [s IN steps WHERE s.number = number AND (pid IS NULL OR s.pid = pid)] AS fitting
  UNWIND events AS e
  WITH e, CASE
      WHEN size(fitting) < 2 OR e.launched IS NULL THEN last(fitting)
      ELSE head([s IN fitting WHERE s.start <= e.launched AND e.launched < s.end])
    END.uid AS uid
  ORDER BY e.start
  WITH coalesce(uid, -1) AS uid, collect(e) AS events
  RETURN collect({step: uid, events: events}) AS work
}
CALL (t) {
  MATCH (k:GpuEvent)
  WHERE k.trace = t.id
  WITH k ORDER BY k.start_ns
  RETURN collect([k.start_ns, k.end_ns]) AS every
}
WITH every, [s IN steps + [{name: '(outside of steps)', uid: -1}] |
  {step: s, events: coalesce(head([w IN work WHERE w.step = s.uid]).events, [])}] AS parts
// The latest step is the first part: where GPU work begins in each step from the latest to this one.
UNWIND range(0, size(parts) - 1) AS i
WITH every, parts[i].step AS s, parts[i].events AS events,
  [o IN parts[..i + 1] WHERE o.step.pid = parts[i].step.pid AND size(o.events) > 0 | o.events[0].start] AS begun
WHERE s.uid >= 0 OR size(events) > 0
WITH s, events, every,
  CASE WHEN s.uid >= 0 AND size(events) > 0 THEN reduce(low = begun[0], b IN begun | CASE WHEN b < low THEN b ELSE low END)
    END AS begin,
  CASE WHEN size(begun) > 1 THEN reduce(low = begun[0], b IN begun[..-1] | CASE WHEN b < low THEN b ELSE low END)
    ELSE reduce(end = 0, e IN events | CASE WHEN e.end > end THEN e.end ELSE end END) END AS until
// The union of intervals in the order of their starts: [its length so far, the end that it reaches to].
WITH s, events, until - begin AS device,
  reduce(u = [0, begin], e IN [e IN every WHERE e[1] > begin AND e[0] < until] |
    CASE
      WHEN e[1] <= u[1] THEN u
      ELSE [
        u[0] + CASE WHEN e[1] < until THEN e[1] ELSE until END - CASE WHEN e[0] > u[1] THEN e[0] ELSE u[1] END,
        CASE WHEN e[1] < until THEN e[1] ELSE until END
      ]
    END)[0] AS on_device, [classes IN [
    ['computation'], ['computation', 'communication'], ['computation', 'communication', 'memcpy']
  ] | reduce(u = [0, 0], e IN [e IN events WHERE e.does IN classes] |
    CASE
      WHEN e.start >= u[1] THEN [u[0] + e.end - e.start, e.end]
      WHEN e.end > u[1] THEN [u[0] + e.end - u[1], e.end]
      ELSE u
    END)[0]
  ] AS busy,
  reduce(end = 0, e IN events | CASE WHEN e.end > end THEN e.end ELSE end END) - coalesce(head(events).start, 0)
    AS total
RETURN s.name AS name, s.number AS step, s.pid AS pid, s.shown / 1e6 AS start_ms, s.time / 1e6 AS host_step_ms,
  CASE WHEN device > 0 THEN device / 1e6 END AS device_step_ms,
  size(events) AS gpu_events, reduce(sum = 0, e IN events | sum + e.time) / 1e6 AS gpu_sum_ms,
  busy[0] / 1e6 AS computation_time_ms, (busy[1] - busy[0]) / 1e6 AS exposed_comm_time_ms,
  (busy[2] - busy[1]) / 1e6 AS exposed_memcpy_time_ms, busy[2] / 1e6 AS busy_time_ms,
  (total - busy[2]) / 1e6 AS idle_time_ms, total / 1e6 AS total_time_ms,
  CASE WHEN device > 0 THEN 100.0 * on_device / device END AS busy_percent,
  CASE WHEN s.uid >= 0 THEN s.uid END AS uid
ORDER BY s.uid < 0, s.pid, s.start, s.uid
