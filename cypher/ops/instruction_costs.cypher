// Costs of instructions of XLA: what should each that ran cost, by our rules and by those of XLA's own analysis?
//
// Our rules are XLA's, with a few departures that describe a kernel better; where a departure makes a difference, it is
// named. Rows do not add up: the cost of a loop or a call includes instructions that ran as ops of their own.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: number of a step; null for all
//
// Columns:
//   instruction: name of the instruction
//   program: name of its compiled program
//   kind: its opcode; of a fusion or a custom call also what it does
//   calls: how often it ran
//   flops: operations of a run without transcendental ones
//   transcendentals: transcendental operations of a run
//   bytes: least traffic of a run to and from memory, B
//   xla_flops: the operations by XLA's rules; -1 for what it does not know
//   xla_transcendentals: the transcendental operations by XLA's rules
//   xla_bytes: the traffic by XLA's rules, B; -1 for what it does not know
//   departs: where our rules depart from XLA's, if that makes a difference
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
