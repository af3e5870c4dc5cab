// Divergences: where does the GPU work of two traces differ by structure, what does it cost, and why?
//
// A place is one op, or other call, of all equal layers. The largest change comes first; changes add up.
// Of a comparison that `db push-diff A B` stored: of the parts of the traces that were compared then.
//
// Parameters:
//   a: run/name, name or id of a trace; null for that of the comparison that was pushed last
//   b: run/name, name or id of another trace; null likewise
//   top: number of places; 0 for all
//
// Columns:
//   place: number of the place, as `--point` takes it
//   change_ms: GPU time of b less that of a, ms
//   a_ms: sum of the durations of the GPU events there in a, ms
//   b_ms: the same in b, ms
//   low_ms: least change that noise allows, by all steps or by equal work; absent with `--noise off`, ms
//   high_ms: greatest change that noise allows, ms
//   proof: what shows that the change is not noise; `noise` if nothing does, empty if not asked
//   times: how often the program comes there; of modules that one side alone has, how many
//   op: op, or what else launched the work; `x -> y` where b calls y in place of x
//   module: classes of the modules around it, the outermost first
//   reason: why they differ: one word
//   why: why they differ: the evidence
//   events_a: GPU events there in a
//   events_b: GPU events there in b
//   kernels_a: short names of its kernels in a, those with the most time first
//   kernels_b: the same in b
//   line_a: innermost line of Python around what launched the longest of them in a
//   line_b: the same in b
//   shapes_a: dims of the arguments of the op that launched it in a, JSON
//   shapes_b: the same in b
//   types_a: types of these arguments in a, JSON
//   types_b: the same in b
//   uid_a: what launched the longest of them in a
//   uid_b: the same in b
WITH {a: null, b: null, top: 100} AS p
MATCH (d:Diff {state: 'complete'})
MATCH (a:Trace {id: d.a}) WHERE p.a IS NULL OR p.a IN [a.id, a.path, a.name]
MATCH (b:Trace {id: d.b}) WHERE p.b IS NULL OR p.b IN [b.id, b.path, b.name]
WITH p, a, b, d ORDER BY d.pushed_ns DESC, d.key LIMIT 1
MATCH (s:Divergence)
WHERE s.diff = d.key AND s.place >= 1 AND (p.top = 0 OR s.place <= p.top)
RETURN s.place AS place, s.change_ns / 1e6 AS change_ms, s.a_ns / 1e6 AS a_ms, s.b_ns / 1e6 AS b_ms,
       s.low_ns / 1e6 AS low_ms, s.high_ns / 1e6 AS high_ms, s.proof AS proof, s.times AS times,
       s.name AS op, s.module AS module, s.reason AS reason,
       s.why AS why, s.events_a AS events_a, s.events_b AS events_b, s.kernels_a AS kernels_a,
       s.kernels_b AS kernels_b, s.line_a AS line_a, s.line_b AS line_b, s.shapes_a AS shapes_a,
       s.shapes_b AS shapes_b, s.types_a AS types_a, s.types_b AS types_b, s.uid_a AS uid_a,
       s.uid_b AS uid_b
ORDER BY place
