// From kernel to Python: the calls that lead from a kernel up to the line of Python it comes from.
//
// A backward op has no Python above it; the way goes on with the forward op that it belongs to. Frames that do nothing
// but pass a call on, such as `_call_impl`, are drawn, but are no rows.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   uid: the kernel, copy or fill; null for the longest kernel with a launch in the trace, and no communication
//
// Columns:
//   level: 0 for the kernel, 1 for its launch, and so on
//   link: how it is tied to the level below: launched by, called by, backward of
//   kind: what it is
//   name: its name; that of a PythonFunction has file and line
//   uid: which event it is
//   dur_us: how long it takes, us
//   gpu_time_us: sum of the durations of the GPU events below it, us
//   path: for drawing: the edges from the level below
WITH {trace: null, uid: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (k.uid = p.uid OR p.uid IS NULL AND k:Kernel)
WITH k ORDER BY EXISTS { (k)<-[:LAUNCHES]-() } DESC,
  k.gpu_class = 'communication', k.dur_ns DESC, k.uid LIMIT 1
WITH COLLECT { MATCH (k)<-[:LAUNCHES|RAN_AS|CALLS*0..]-(a) RETURN DISTINCT a ORDER BY a.depth DESC } AS up
WITH up, CASE WHEN none(a IN up WHERE a:Module OR a:PythonFunction) THEN head(COLLECT {
  UNWIND up AS b MATCH (b)<-[:HAS_BACKWARD]-(f:Op)
  RETURN [b, f] ORDER BY b.depth DESC, f.start_ns, f.pre LIMIT 1
}) END AS turn
WITH [a IN up WHERE turn IS NULL OR a.depth >= turn[0].depth] +
     COLLECT { WITH turn[1] AS f MATCH (f)<-[:CALLS*0..]-(a) RETURN a ORDER BY a.depth DESC } AS up
WITH up, [i IN range(0, size(up) - 1) WHERE i = 0 OR coalesce(up[i].code, '') <> 'passed_on'] AS shown
UNWIND range(0, size(shown) - 1) AS level
WITH up, level, shown[level] AS at, CASE WHEN level > 0 THEN shown[level - 1] ELSE 0 END AS below
WITH *, up[at] AS a, CASE WHEN level > 0 THEN up[below + 1] END AS caller, up[below] AS called
OPTIONAL MATCH (caller)-[r:LAUNCHES|RAN_AS|CALLS|HAS_BACKWARD]->(called)
RETURN level,
       CASE type(r) WHEN 'LAUNCHES' THEN 'launched by' WHEN 'RAN_AS' THEN 'launched by' WHEN 'CALLS' THEN 'called by'
                    WHEN 'HAS_BACKWARD' THEN 'backward of' END AS link,
       [l IN labels(a) WHERE NOT l IN ['Event', 'GpuEvent', 'Hot', 'Warm']][0] AS kind,
       a.name AS name, a.uid AS uid, a.dur_ns / 1e3 AS dur_us, a.gpu_sum_ns / 1e3 AS gpu_time_us,
       COLLECT {
         UNWIND range(below + 1, at) AS i
         WITH up[i] AS x, up[i - 1] AS y
         MATCH path = (x)-[:LAUNCHES|RAN_AS|CALLS|HAS_BACKWARD]->(y)
         RETURN path
       } AS path
ORDER BY level
