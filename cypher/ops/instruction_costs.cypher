// Costs of instructions of XLA: what should each that ran cost, by our rules and by those of XLA's own analysis?
//
// Rules are XLA's but for departures that say more of a kernel; where these make a difference, they are named. What a loop
// or a call costs is the work of instructions that ran as ops of their own, too: rows are not to be added up.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: number of a step; null for all
//
// Columns:
//   instruction: name of the instruction
//   program: name of its compiled program
//   kind: what it is called for: its opcode, of a fusion and a custom call also what it does
//   calls: how often it ran
//   flops: operations of a run but for transcendental ones
//   transcendentals: transcendental operations of a run
//   bytes: least traffic of a run to and from memory, B
//   xla_flops: the operations by XLA's rules; -1 for what it does not know
//   xla_transcendentals: the transcendental operations by XLA's rules
//   xla_bytes: the traffic by XLA's rules, B; -1 for what it does not know
//   departs: what our rules depart in, where that makes a difference
//   uid: the first run
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (o:Op)-[:HAS_SIGNATURE]->(s:Signature)
WHERE o.trace = t.id AND (p.step IS NULL OR o.step = p.step) AND s.hlo_kind IS NOT NULL
OPTIONAL MATCH (o)-[:OF_PROGRAM]->(c:Program)
WITH s, c, o.name AS instruction, count(*) AS calls, min(o.uid) AS uid
RETURN instruction, c.name AS program, s.hlo_kind AS kind, calls, s.hlo_flops AS flops,
       s.hlo_transcendentals AS transcendentals, s.hlo_bytes AS bytes,
       coalesce(s.hlo_xla_flops, s.hlo_flops) AS xla_flops,
       coalesce(s.hlo_xla_transcendentals, s.hlo_transcendentals) AS xla_transcendentals,
       coalesce(s.hlo_xla_bytes, s.hlo_bytes) AS xla_bytes, s.hlo_departs AS departs, uid
ORDER BY flops DESC, bytes DESC, uid
