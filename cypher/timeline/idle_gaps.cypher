// Idle gaps: the longest stretches in which a device did nothing, and what the launching thread did meanwhile.
//
// A gap ends with a GPU event. The call, the op and the frame are those of the thread that launched it, with the
// longest part in the gap; of equals the innermost.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   device: index of a device; null for all
//   min_us: shorter gaps are left out, us
//   top: how many gaps are shown; 0 for all
//
// Columns:
//   device: index of the device
//   gap_start_ms: start of the gap, as Perfetto UI shows it, ms
//   gap_us: its length, us
//   next: the GPU event that ends it
//   next_uid: its uid
//   launch: the runtime call that launched it; absent where its launch is not in the trace
//   launch_begin_us: start of the launch, from the start of the gap; negative before the gap, us
//   launch_end_us: end of the launch, from the start of the gap; negative where the work had been queued before, us
//   call: runtime call on the launching thread in the gap
//   call_us: its part in the gap, us
//   op: op on the launching thread in the gap
//   op_us: its part in the gap, us
//   frame: module or Python function on the launching thread in the gap
//   frame_us: its part in the gap, us
WITH {trace: null, device: null, min_us: 1, top: 20} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC LIMIT 1
MATCH (k:GpuEvent)
WHERE k.trace = t.id AND k.pre >= 0 AND (p.device IS NULL OR k.device = p.device)
WITH p, t, k ORDER BY k.start_ns, k.pre
WITH p, t, k.device AS device, collect([k.start_ns, k.end_ns, k.pre]) AS events
// In the order of starts: the end that has been reached, and the longest gaps so far as [length, start, end, next].
WITH p, t, reduce(s = {reach: events[0][0], gaps: []}, e IN events | {
    reach: CASE WHEN e[1] > s.reach THEN e[1] ELSE s.reach END,
    gaps: CASE
      WHEN e[0] <= s.reach OR e[0] - s.reach < p.min_us * 1000 THEN s.gaps
      WHEN p.top > 0 AND size(s.gaps) >= p.top AND e[0] - s.reach <= s.gaps[-1][0] THEN s.gaps
      ELSE ([g IN s.gaps WHERE g[0] >= e[0] - s.reach] + [[e[0] - s.reach, s.reach, e[0], e[2]]]
        + [g IN s.gaps WHERE g[0] < e[0] - s.reach])[..CASE p.top WHEN 0 THEN size(events) ELSE p.top END]
    END
  }).gaps AS gaps
UNWIND gaps AS gap
WITH p, t, gap ORDER BY gap[0] DESC, gap[1]
WITH p, t, collect(gap) AS gaps
UNWIND gaps[..CASE p.top WHEN 0 THEN size(gaps) ELSE p.top END] AS gap
MATCH (k:GpuEvent) WHERE k.trace = t.id AND k.pre = gap[3]
OPTIONAL MATCH (k)<-[:LAUNCHES]-(c:RuntimeCall)
WITH t, collect({length: gap[0], start: gap[1], end: gap[2], next: k, launch: c, thread: c.thread}) AS gaps
CALL (t) {
  MATCH (c:RuntimeCall) WHERE c.trace = t.id AND c.pre >= 0
  WITH c ORDER BY c.pre
  RETURN collect([c.thread, c.start_ns, c.end_ns, c.pre]) AS calls
}
UNWIND gaps AS g
// What began before the last runtime call ahead of the gap is over, but for what encloses that call.
WITH t, g, reduce(pre = -1, c IN calls | CASE WHEN c[0] = g.thread AND c[2] <= g.start THEN c[3] ELSE pre END) AS low,
  CASE WHEN g.thread IS NULL THEN -1
    ELSE coalesce(head([c IN calls WHERE c[0] = g.thread AND c[1] >= g.end | c[3]]), t.events) END AS high
CALL (t, g, low, high) {
  CALL (t, g, low, high) {
    MATCH (h:Event)
    WHERE h.trace = t.id AND h.pre > low AND h.pre < high AND h.thread = g.thread
      AND (h:RuntimeCall OR h:Op OR h:Module OR h:PythonFunction)
    RETURN h
    UNION
    MATCH (h)-[:CALLS*]->(c:RuntimeCall) WHERE c.trace = t.id AND c.pre = low
    RETURN h
  }
  WITH h, CASE WHEN h.end_ns < g.end THEN h.end_ns ELSE g.end END
    - CASE WHEN h.start_ns > g.start THEN h.start_ns ELSE g.start END AS part
  WITH CASE WHEN h:RuntimeCall THEN 'call' WHEN h:Op THEN 'op' ELSE 'frame' END AS what, part, h.pre AS pre
  WHERE part > 0
  WITH what, max([part, pre]) AS most
  RETURN collect({what: what, part: most[0], pre: most[1]}) AS parts
}
WITH t, g, [what IN ['call', 'op', 'frame'] | head([m IN parts WHERE m.what = what])] AS most
OPTIONAL MATCH (call:RuntimeCall) WHERE call.trace = t.id AND call.pre = most[0].pre
OPTIONAL MATCH (op:Op) WHERE op.trace = t.id AND op.pre = most[1].pre
OPTIONAL MATCH (frame:Event) WHERE frame.trace = t.id AND frame.pre = most[2].pre
RETURN g.next.device AS device, (g.start + coalesce(t.lead_ns, 0)) / 1e6 AS gap_start_ms, g.length / 1e3 AS gap_us, g.next.name AS next,
  g.next.uid AS next_uid, g.launch.name AS launch, (g.launch.start_ns - g.start) / 1e3 AS launch_begin_us,
  (g.launch.end_ns - g.start) / 1e3 AS launch_end_us, call.name AS call, most[0].part / 1e3 AS call_us,
  op.name AS op, most[1].part / 1e3 AS op_us, frame.name AS frame, most[2].part / 1e3 AS frame_us
ORDER BY gap_us DESC, gap_start_ms
