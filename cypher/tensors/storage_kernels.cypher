// Kernels of a storage: kernels, copies and fills of the ops that made, read or wrote tensors of a storage.
//
// A kernel counts for the op that it is charged to. Only traces that were linked with their execution trace have tensors.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   storage: name of a storage, such as s124; null for the one with the most time of kernels
//
// Columns:
//   storage: name of the storage
//   kernel: name of the kernel, copy or fill
//   access: what its op did with tensors of the storage: made, read, written
//   op: name of the op that it is charged to
//   op_uid: that op
//   device: index of the device
//   stream: number of the stream
//   start_us: start of the kernel, counted from the zero of Perfetto UI, us
//   dur_us: its duration, us
//   uid: the kernel
WITH {trace: null, storage: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (s:Storage)<-[:STORED_IN]-(:Tensor)<-[:PRODUCES|CONSUMES|WRITES]-(o:Op)<-[:CHARGED_TO]-(k:GpuEvent)
  WHERE s.trace = t.id AND (p.storage IS NULL OR s.name = p.storage)
  WITH DISTINCT s, k
  WITH s, sum(k.dur_ns) AS time
  RETURN s ORDER BY time DESC, s.storage_id, s.version LIMIT 1
}
MATCH (s)<-[:STORED_IN]-(:Tensor)<-[e:PRODUCES|CONSUMES|WRITES]-(o:Op)
WITH t, s, o, collect(DISTINCT type(e)) AS edges
MATCH (o)<-[:CHARGED_TO]-(k:GpuEvent)
WITH *, [pair IN [['PRODUCES', 'made'], ['CONSUMES', 'read'], ['WRITES', 'written']] WHERE pair[0] IN edges | pair[1]]
     AS words
RETURN s.name AS storage, k.name AS kernel, reduce(text = words[0], word IN words[1..] | text + ', ' + word) AS access,
       o.name AS op, o.uid AS op_uid, k.device AS device, k.stream AS stream,
       (k.start_ns + coalesce(t.lead_ns, 0)) / 1e3 AS start_us, k.dur_ns / 1e3 AS dur_us, k.uid AS uid
ORDER BY k.start_ns, k.uid
