// Chains of copies: what is copied or cast, and copied again.
//
// A copy is an op such as aten::copy_ that reads one storage and makes or writes another. It goes on with an earlier copy
// if it reads the storage that this one had filled, and nobody wrote there in between. Only traces that were linked with
// their execution trace have tensors.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   min_copies: least number of copies
//   top: number of rows; 0 for all
//
// Columns:
//   copies: number of copies, one after another
//   bytes: what they copied in all, B
//   way: tensors from the first source to the last copy, with >
//   devices: devices of these, with >
//   first_op: name of the op of the first copy
//   first_uid: that op
//   last_op: name of the op of the last copy
//   last_uid: that op
WITH {trace: null, min_copies: 2, top: 20} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (o:Op)-[:CONSUMES]->(a:Tensor)-[:STORED_IN]->(from:Storage)
WHERE o.trace = t.id AND o.name IN ['aten::to', 'aten::_to_copy', 'aten::contiguous', 'aten::clone', 'aten::copy_']
MATCH (o)-[:WRITES|PRODUCES]->(b:Tensor)-[:STORED_IN]->(into:Storage)
WHERE from <> into
WITH p, o, a, b, from, into
ORDER BY a.tensor_id, a.version, b.tensor_id, b.version, from.start_ns, into.start_ns
WITH p, o, head(collect({a: a, b: b, from: from, into: into})) AS one
// Who wrote last into what a copy reads.
CALL (o, one) {
  WITH o, one.from AS from
  MATCH (from)<-[:STORED_IN]-(:Tensor)<-[:WRITES|PRODUCES]-(w:Event)
  WHERE w.start_ns < o.start_ns
  WITH DISTINCT o, w ORDER BY w.start_ns DESC, w.pre DESC LIMIT 1
  RETURN head(collect(CASE WHEN w.end_ns <= o.start_ns THEN w.uid END)) AS last
}
WITH p, o, one, last ORDER BY o.start_ns, o.pre
WITH p, collect({o: o, a: one.a, b: one.b, from: elementId(one.from), into: elementId(one.into), last: last}) AS copies
WITH p, reduce(chains = [], c IN copies | chains + [coalesce(
    head([one IN chains WHERE c.last IS NOT NULL AND one[-1].o.uid = c.last AND one[-1].into = c.from]) + [c], [c]
  )]) AS chains
UNWIND chains AS chain
WITH p, chains, chain
WHERE size(chain) >= p.min_copies
  AND none(other IN chains WHERE size(other) = size(chain) + 1 AND other[-2].o.uid = chain[-1].o.uid)
WITH p, chain, size(chain) AS copies, reduce(total = 0, c IN chain | total + c.b.bytes) AS bytes
ORDER BY copies DESC, bytes DESC, chain[-1].o.uid
WITH p, collect([chain, copies, bytes]) AS rows
UNWIND CASE p.top WHEN 0 THEN rows ELSE rows[..p.top] END AS row
WITH row[0] AS chain, row[1] AS copies, row[2] AS bytes
RETURN copies, bytes, reduce(way = chain[0].a.name, c IN chain | way + ' > ' + c.b.name) AS way,
       reduce(way = chain[0].a.on, c IN chain | way + ' > ' + c.b.on) AS devices,
       chain[0].o.name AS first_op, chain[0].o.uid AS first_uid, chain[-1].o.name AS last_op, chain[-1].o.uid AS last_uid
