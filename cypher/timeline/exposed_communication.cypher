// Exposed communication: how long collectives ran, and for how long no computation ran beside them.
//
// Communication kernels by collective and process group. A kernel is exposed while no kernel or fill computes on its
// device. Parts of several kernels are added up, also where they run side by side.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n, for the GPU events that were launched in it; null for all
//
// Columns:
//   collective: kind of collective; absent where it is not known
//   group: name of the process group, else its key
//   group_description: what the program calls it
//   group_size: number of ranks in it
//   kernels: number of kernels
//   total_us: sum of their durations, us
//   exposed_us: sum of the parts of them without computation, us
//   exposed_percent: exposed_us as share of total_us, %
//   mean_us: mean of their durations, us
//   max_us: greatest of their durations, us
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (k:GpuEvent)
  WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step) AND k.gpu_class = 'computation'
  WITH coalesce(k.device, -1) AS device, collect([k.start_ns, 1, 0]) + collect([k.end_ns, -1, 0]) AS points
  RETURN collect({device: device, points: points}) AS computation
}
MATCH (k:GpuEvent)
WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step) AND k.gpu_class = 'communication'
OPTIONAL MATCH (k)-[:MEMBER_OF]->(c:Collective)
OPTIONAL MATCH (c)-[:IN_GROUP]->(g:ProcessGroup)
WITH computation, coalesce(k.device, -1) AS device, c.name AS collective, g, count(*) AS kernels,
  sum(k.dur_ns) AS total, max(k.dur_ns) AS longest, collect([k.start_ns, 0, -1]) + collect([k.end_ns, 0, 1]) AS own
UNWIND own + coalesce(head([m IN computation WHERE m.device = device | m.points]), []) AS point
WITH device, collective, g, kernels, total, longest, point ORDER BY point[0]
WITH device, collective, g, kernels, total, longest, collect(point) AS points
// Time with computation so far, taken away where a kernel starts and added where it ends: [computations that are open,
// time of the last point, time with computation, that within kernels].
WITH collective, g, kernels, total, longest, reduce(s = [0, 0, 0, 0], e IN points |
    [s[0] + e[1], e[0], s[2] + CASE WHEN s[0] > 0 THEN e[0] - s[1] ELSE 0 END,
     s[3] + e[2] * (s[2] + CASE WHEN s[0] > 0 THEN e[0] - s[1] ELSE 0 END)]
  )[3] AS hidden
WITH collective, g, sum(kernels) AS kernels, sum(total) AS total, sum(total - hidden) AS exposed,
  max(longest) AS longest
RETURN collective, g.name AS group, g.description AS group_description, g.size AS group_size, kernels,
  total / 1e3 AS total_us, exposed / 1e3 AS exposed_us,
  CASE WHEN total > 0 THEN 100.0 * exposed / total END AS exposed_percent,
  total / 1e3 / kernels AS mean_us, longest / 1e3 AS max_us
ORDER BY exposed DESC, total DESC, collective, group, g.key
