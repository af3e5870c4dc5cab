// Compiled programs of JAX: which take the time, how often they ran, how many were compiled.
//
// A program that several devices run counts an execution for each. The number of executions is how often most of the
// instructions ran that run once in each (of several such counts the largest, and at least one).
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: number of a step; null for all
//
// Columns:
//   program: name of the program
//   gpu_ms: sum of the durations of the GPU events that are charged to its instructions, ms
//   percent: share of the sum over all GPU events, %
//   host_ms: sum of the durations of its outermost instructions on the host: launching, or on a CPU computing, ms
//   executions: executions, each device's for itself
//   compiled: how often it was compiled, by its numbers in the profile
//   versions: programs of this name that ran; several where it was compiled for other shapes or constants
//   instructions: number of its instructions, those in bodies of fusions and loops included
//   devices: devices that it was compiled for
//   shapes: types and dims of its parameters and results, equal ones once with their number
//   fingerprint: hash of its instructions, their shapes and configuration; equal in all profiles
//   numbers: by which the profile names it
//   xla_flops: operations of an execution without transcendental ones, as XLA's own analysis counts them
//   xla_transcendentals: transcendental operations of an execution, by XLA's analysis
//   xla_bytes: traffic of an execution to and from memory, by XLA's analysis, B
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  RETURN sum(k.dur_ns) AS total
}
MATCH (t)-[ran:RAN]->(c:Program)
CALL (p, t, c) {
  MATCH (c)<-[:OF_PROGRAM]-(o:Op)<-[:CHARGED_TO]-(k:GpuEvent)
  WHERE o.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  RETURN count(*) AS events, sum(k.dur_ns) AS gpu_ns
}
CALL (p, t, c) {
  MATCH (c)<-[:OF_PROGRAM]-(o:Op) WHERE o.trace = t.id AND (p.step IS NULL OR o.step = p.step)
  RETURN count(*) AS ops, sum(CASE WHEN EXISTS { (o)<-[:CALLS*]-(:Op) } THEN 0 ELSE o.dur_ns END) AS host_ns
}
CALL (p, t, c) {
  MATCH (c)<-[:OF_PROGRAM {runs: 'once'}]-(o:Op) WHERE o.trace = t.id AND (p.step IS NULL OR o.step = p.step)
  WITH o.name AS name, count(*) AS times
  WITH times, count(*) AS instructions ORDER BY instructions DESC, times DESC
  RETURN coalesce(head(collect(times)), 1) AS executions
}
WITH * WHERE ops > 0 OR events > 0
RETURN c.name AS program, gpu_ns / 1e6 AS gpu_ms, CASE WHEN total > 0 THEN 100.0 * gpu_ns / total END AS percent,
       host_ns / 1e6 AS host_ms, CASE WHEN ops > 0 THEN executions ELSE 0 END AS executions,
       size(ran.numbers) AS compiled, COUNT { (t)-[:RAN]->(:Program {name: c.name}) } AS versions,
       c.instructions AS instructions, c.replicas * c.partitions AS devices, c.shapes AS shapes,
       c.fingerprint AS fingerprint, ran.numbers AS numbers, c.xla_flops AS xla_flops,
       c.xla_transcendentals AS xla_transcendentals, c.xla_bytes AS xla_bytes
ORDER BY gpu_ms DESC, host_ms DESC, program, fingerprint
