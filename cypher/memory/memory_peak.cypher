// Memory at the peak: what is in use when most bytes of a device are, by the module and the op that allocated it.
//
// Bytes of a device add up to the allocator's total; bytes that the recorded allocations do not account for were
// allocated before the recording. Only traces that were recorded with profile_memory=True have allocations.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n, whose peak is taken; null for that of everything
//
// Columns:
//   device: whose memory: cuda:0, hip:0, cpu
//   module_path: names of the modules around what allocated it, joined by /; in brackets what is of no module, of the
//      optimizer, or was allocated before the recording
//   op: outermost op around the allocation; where there is none, as in a snapshot of memory, the innermost line of
//      Python
//   blocks: number of blocks alive then; null for what was there before
//   bytes: sum of their sizes, B
//   percent: share of all bytes in use then on the device, %
//   unreleased_bytes: part of bytes that is not released in the recording, B
//   line: innermost line of Python around the allocation of the largest of them
//   peak_us: the first moment at which most bytes are in use, counted from the zero of Perfetto UI, us
//   allocated_bytes: bytes in use then, B
//   reserved_bytes: device memory that the allocator holds then; null where that is not recorded, B
//   fragmentation_bytes: the part of it that is not in use: reserved_bytes less allocated_bytes, B
//   uid: the op, else the call, that allocated the largest of them
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (e:MemoryEvent {trace: t.id})
WHERE e.allocated IS NOT NULL AND (p.step IS NULL OR e.step = p.step)
WITH t, e ORDER BY e.allocated DESC, e.start_ns, e.uid
WITH t, e.on AS device, head(collect(e)) AS peak
CALL (t, device, peak) {
  MATCH (a:MemoryEvent {trace: t.id})
  WHERE a.on = device AND a.bytes > 0 AND a.address IS NOT NULL
    AND (a.start_ns < peak.start_ns OR (a.start_ns = peak.start_ns AND a.uid <= peak.uid))
  OPTIONAL MATCH (a)<-[:RELEASES]-(r)
  WITH a, r, peak
  WHERE r IS NULL OR r.start_ns > peak.start_ns OR (r.start_ns = peak.start_ns AND r.uid > peak.uid)
  OPTIONAL MATCH (a)-[:IN_MODULE]->()-[:PART_OF]->(place:ModulePath)
  OPTIONAL MATCH (a)-[:ALLOCATED_IN]->(call)
  // The nearest op above that is in no other one.
  CALL (call) {
    OPTIONAL MATCH (call) (()<-[:CALLS]-())* (above:Op) WHERE NOT EXISTS { (above)<-[:CALLS]-(:Op) }
    RETURN above AS op ORDER BY above.pre DESC LIMIT 1
  }
  CALL (call) {
    OPTIONAL MATCH (frame:Event {trace: call.trace, pre: call.line_pre})
    RETURN frame.name AS line
  }
  WITH a, call, op, line, CASE WHEN r.bytes < 0 THEN 0 ELSE a.bytes END AS stays,
    CASE WHEN a.pass IS NULL THEN '(before the recording)'
         ELSE coalesce(place.path, CASE a.pass WHEN 'optimizer' THEN '(optimizer)' ELSE '(no module)' END) END AS path
  ORDER BY a.bytes DESC, a.start_ns, a.uid
  WITH path, coalesce(op.name, line) AS op, count(*) AS blocks, sum(a.bytes) AS bytes, sum(stays) AS unreleased,
    head(collect([line, coalesce(op.uid, call.uid)])) AS largest
  RETURN collect({path: path, op: op, blocks: blocks, bytes: bytes, unreleased: unreleased, line: largest[0],
    uid: largest[1]}) AS found, sum(bytes) AS known
}
// What is left was there before; a part of it is released behind the peak.
CALL (t, device, peak) {
  MATCH (b:MemoryEvent {trace: t.id})
  WHERE b.on = device AND b.bytes < 0 AND b.address IS NOT NULL AND NOT EXISTS { (b)-[:RELEASES]->() }
    AND (b.start_ns > peak.start_ns OR (b.start_ns = peak.start_ns AND b.uid > peak.uid))
  RETURN -sum(b.bytes) AS gone
}
WITH *, peak.allocated - known AS rest
UNWIND found + CASE WHEN rest = 0 THEN [] ELSE
  [{path: '(before the recording)', bytes: rest, unreleased: rest - gone}] END AS one
WITH *, CASE WHEN peak.reserved > 0 THEN peak.reserved END AS reserved
RETURN device, one.path AS module_path, one.op AS op, one.blocks AS blocks, one.bytes AS bytes,
  CASE WHEN peak.allocated > 0 THEN 100.0 * one.bytes / peak.allocated END AS percent,
  one.unreleased AS unreleased_bytes, one.line AS line, (peak.start_ns + coalesce(t.lead_ns, 0)) / 1e3 AS peak_us,
  peak.allocated AS allocated_bytes, reserved AS reserved_bytes, reserved - peak.allocated AS fragmentation_bytes,
  one.uid AS uid
ORDER BY device STARTS WITH 'cpu', size(device), device, bytes DESC, module_path, coalesce(op, '')
