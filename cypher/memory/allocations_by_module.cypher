// Allocations by module: what modules allocate, forward and backward, for how long, and what they leave.
//
// Each allocation counts once, for the innermost module that it belongs to: what a backward op allocates, for the module
// that called its forward op. Only traces that were recorded with profile_memory=True have allocations.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n, whose allocations count, whenever they are released; null for all
//
// Columns:
//   device: whose memory: cuda:0, hip:0, cpu
//   module_path: names of the modules around what allocates, joined by /; in brackets what is of no module, or of the
//      optimizer
//   pass: forward, backward or optimizer
//   allocations: number of allocations
//   allocated_bytes: sum of their sizes, B
//   released_bytes: part of it that is released in the recording, whoever releases it, B
//   net_bytes: the rest of it, B
//   peak_bytes: most bytes of these that are in use at one moment, B
//   unreleased: number of those that are not released in the recording
//   mean_lifetime_us: mean time from allocation to release of those that are released, us
//   uid: the call of the module, or the step of the optimizer, that allocates first; null for none
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (a:MemoryEvent {trace: t.id})
WHERE a.bytes > 0 AND a.address IS NOT NULL AND a.pass IS NOT NULL AND (p.step IS NULL OR a.step = p.step)
OPTIONAL MATCH (a)<-[:RELEASES]-(r)
OPTIONAL MATCH (a)-[:IN_MODULE]->(m)
OPTIONAL MATCH (m)-[:PART_OF]->(place:ModulePath)
WITH a, r, m, coalesce(place.path, CASE a.pass WHEN 'optimizer' THEN '(optimizer)' ELSE '(no module)' END) AS path
ORDER BY a.start_ns, a.uid
WITH a.on AS device, path, a.pass AS pass, count(*) AS allocations, sum(a.bytes) AS allocated,
  sum(CASE WHEN r.bytes < 0 THEN a.bytes ELSE 0 END) AS released, count(CASE WHEN r.bytes < 0 THEN 1 END) AS gone,
  avg(CASE WHEN r.bytes < 0 THEN r.start_ns - a.start_ns END) AS lifetime, head(collect(m.uid)) AS uid,
  collect([a.start_ns, a.uid, a.bytes]) + collect(CASE WHEN r IS NOT NULL THEN [r.start_ns, r.uid, -a.bytes] END)
    AS changes
CALL (changes) {
  UNWIND changes AS change
  WITH change ORDER BY change[0], change[1], change[2]
  WITH collect(change[2]) AS sizes
  RETURN reduce(state = [0, 0], change IN sizes | [state[0] + change,
    CASE WHEN state[0] + change > state[1] THEN state[0] + change ELSE state[1] END])[1] AS most
}
RETURN device, path AS module_path, pass, allocations, allocated AS allocated_bytes, released AS released_bytes,
  allocated - released AS net_bytes, most AS peak_bytes, allocations - gone AS unreleased,
  lifetime / 1e3 AS mean_lifetime_us, uid
ORDER BY device STARTS WITH 'cpu', size(device), device, allocated_bytes DESC, module_path, pass
