// Bytes at the peak: what is alive when most bytes are, by the module and the outermost op that allocated it.
//
// What is alive when: see bytes_alive. Only traces that were linked with their execution trace have tensors.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//
// Columns:
//   device: device, such as cuda:0
//   at_us: the first moment at which most bytes are alive, counted from the zero of Perfetto UI, us
//   module: innermost nn.Module around the op that allocated the storages; null for none
//   op: outermost op around the allocation; null for what was there before, or was made out of sight
//   storages: number of storages alive then
//   bytes: sum of their sizes, B
//   percent: share of all bytes alive then on the device, %
WITH {trace: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (s:Storage) WHERE s.trace = t.id
UNWIND [[s.start_ns, s.bytes], [s.end_ns, -s.bytes]] AS change
WITH t, s, change ORDER BY change[0], change[1]
WITH t, s.on AS device, collect(DISTINCT s) AS storages, collect(change) AS changes
// [bytes now, most bytes, since when]
WITH *, reduce(state = [0, -1, 0], change IN changes | [state[0] + change[1],
    CASE WHEN state[0] + change[1] > state[1] THEN state[0] + change[1] ELSE state[1] END,
    CASE WHEN state[0] + change[1] > state[1] THEN change[0] ELSE state[2] END])[2] AS moment
WITH t, device, moment, [s IN storages WHERE s.start_ns <= moment AND moment < s.end_ns] AS alive
WITH *, reduce(total = 0, s IN alive | total + s.bytes) AS whole
UNWIND alive AS s
OPTIONAL MATCH (o:Event) WHERE o.trace = t.id AND o.uid = s.made_by
CALL (o) {
  OPTIONAL MATCH (o) (()<-[:CALLS]-(:!Module))* ()<-[:CALLS]-(m:Module)
  RETURN m.name AS module
}
CALL (o) {
  OPTIONAL MATCH (o:Op) (()<-[:CALLS]-(:Op))* (top:Op)
  WHERE NOT EXISTS { (top)<-[:CALLS]-(:Op) }
  RETURN top.name AS op
}
WITH t, device, moment, whole, module, op, count(*) AS storages, sum(s.bytes) AS bytes
RETURN device, (moment + coalesce(t.lead_ns, 0)) / 1e3 AS at_us, module, op, storages, bytes,
       CASE WHEN whole > 0 THEN 100.0 * bytes / whole END AS percent
ORDER BY device, bytes DESC, coalesce(module, ''), coalesce(op, '')
