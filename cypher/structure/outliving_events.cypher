// Events that outlive their callers: where the nesting of calls is not what was recorded, and by how much.
//
// Such an event ends after the event that it started in. If at least half of it lies inside, it stays a callee of that
// event, which it then exceeds; else it stands beside it.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//
// Columns:
//   kind: kind of the events
//   name: name of the events
//   count: how many of them end after the event that they started in
//   callees: how many of these end after their caller
//   greatest_excess_us: longest time by which one of these ends after its caller, us
//   total_excess_us: sum of these times, us
//   caller: the caller in the case of the greatest excess
//   uid: the event in that case, else the first
WITH {trace: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (h:Module|PythonFunction|Op|RuntimeCall {trace: t.id}) WHERE 'outlives_parent' IN h.flags
OPTIONAL MATCH (c)-[:CALLS]->(h) WHERE c.end_ns < h.end_ns
WITH h, c, h.end_ns - c.end_ns AS excess
ORDER BY coalesce(excess, -1) DESC, h.pre
WITH head([l IN labels(h) WHERE l IN ['Module', 'PythonFunction', 'Op', 'RuntimeCall']]) AS kind, h.name AS name,
  count(*) AS events, count(c) AS callees, max(excess) AS greatest, sum(excess) AS total, collect(h)[0] AS worst,
  collect(c)[0] AS caller
RETURN kind, name, events AS count, callees, greatest / 1e3 AS greatest_excess_us,
  CASE WHEN callees > 0 THEN total / 1e3 END AS total_excess_us, caller.name AS caller, worst.uid AS uid
ORDER BY count DESC, kind, name
