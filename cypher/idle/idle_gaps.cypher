// Idle gaps: the longest stretches in which a device did nothing, and what the launching thread did meanwhile.
//
// A gap ends with a GPU event. Call, op and frame are those of the thread that launched this event that fill most of
// the gap (the innermost of equals). If the event had been launched before the gap began, the device waited for no
// host, and there are none.
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
//   cause: what most of it is due to
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
//   because: call or frame to which the largest part of the gap is due, of the hundred longest gaps of each device
//   because_us: time of it, and of other calls of its function, in the gap, us
//   line: the user's line that it comes from
WITH {trace: null, device: null, min_us: 1, top: 20} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (g:Gap {trace: t.id})<-[:AFTER]-(next:GpuEvent)
WHERE g.dur_ns >= p.min_us * 1000 AND (p.device IS NULL OR g.device = p.device)
  AND (p.top = 0 OR p.top >= CASE WHEN p.device IS NULL THEN g.number ELSE g.number_on_device END)
OPTIONAL MATCH (next)<-[:LAUNCHES]-(launch:RuntimeCall)
RETURN g.device AS device, (g.start_ns + coalesce(t.lead_ns, 0)) / 1e6 AS gap_start_ms, g.dur_ns / 1e3 AS gap_us,
       g.cause AS cause, next.name AS next, next.uid AS next_uid, launch.name AS launch,
       (launch.start_ns - g.start_ns) / 1e3 AS launch_begin_us, (launch.end_ns - g.start_ns) / 1e3 AS launch_end_us,
       head([(g)-[:CAUSED_BY]->(call:RuntimeCall) | call.name]) AS call, g.call_ns / 1e3 AS call_us,
       head([(g)-[:CAUSED_BY]->(op:Op) | op.name]) AS op, g.op_ns / 1e3 AS op_us,
       head([(g)-[:CAUSED_BY]->(frame:Module|PythonFunction) | frame.name]) AS frame, g.frame_ns / 1e3 AS frame_us,
       g.because AS because, g.because_ns / 1e3 AS because_us, g.line AS line
ORDER BY g.number
