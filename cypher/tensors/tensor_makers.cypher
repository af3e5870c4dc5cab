// Makers of tensors: who made what an op reads, who allocated its memory, and who wrote there last.
//
// Only traces that were linked with their execution trace have tensors.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   uid: the op; null for the one with the most GPU time below it of those that read tensors
//
// Columns:
//   op: name of the op that reads
//   tensor: name, type and sizes of what it reads
//   bytes: size of the tensor's elements, B
//   made_by: op that made the tensor; null where it was there before, or was made out of sight
//   made_by_uid: that op
//   view_of: what the tensor was made a view of
//   storage: the tensor's storage
//   allocated_by: op that allocated the storage
//   allocated_by_uid: that op
//   written_by: op that wrote last into the storage before this one began
//   written_by_uid: that op
WITH {trace: null, uid: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (o:Op)-[:CONSUMES]->(:Tensor)
  WHERE o.trace = t.id AND (p.uid IS NULL OR o.uid = p.uid)
  WITH DISTINCT o
  RETURN o ORDER BY coalesce(o.gpu_sum_ns, 0) DESC, o.pre LIMIT 1
}
MATCH (o)-[:CONSUMES]->(x:Tensor)
OPTIONAL MATCH (maker:Event)-[:PRODUCES]->(x)
OPTIONAL MATCH (x)-[:VIEW_OF]->(base:Tensor)
CALL (x) {
  OPTIONAL MATCH (x)-[:STORED_IN]->(s:Storage)
  RETURN s ORDER BY s.start_ns DESC, s.storage_id DESC, s.version DESC LIMIT 1
}
OPTIONAL MATCH (allocator:Event) WHERE allocator.trace = t.id AND allocator.uid = s.made_by
CALL (o, s) {
  MATCH (s)<-[:STORED_IN]-(:Tensor)<-[:WRITES]-(w:Event)
  WHERE w.end_ns <= o.start_ns
  WITH DISTINCT w ORDER BY w.end_ns DESC, w.pre DESC LIMIT 1
  RETURN head(collect(w)) AS writer
}
RETURN o.name AS op, x.name AS tensor, x.bytes AS bytes, maker.name AS made_by, maker.uid AS made_by_uid,
       base.name AS view_of, s.name AS storage, allocator.name AS allocated_by, allocator.uid AS allocated_by_uid,
       writer.name AS written_by, writer.uid AS written_by_uid
ORDER BY x.tensor_id, x.version
