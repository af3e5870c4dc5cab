// Replays of captured graphs: which graphs, what share of their kernels the captures explain, by which rule.
//
// Of a trace that was joined with captures before it was pushed.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//
// Columns:
//   capture: file of the capture
//   graph: which of the graphs in it
//   batch_size: batch that it was captured for
//   mode: FULL for a whole forward pass, PIECEWISE for a piece of one, or what the server calls it
//   rule: how replayed kernels were joined with captured calls
//   replays: number of launches
//   least_batch: least batch of the server's steps that they are in
//   greatest_batch: greatest batch of these steps
//   calls: number of calls that launch, copy or fill in the capture
//   gpu_events: GPU events of all these replays
//   joined: those that got the op of a captured call
//   percent_joined: joined as share of gpu_events, %
//   gpu_time_us: sum of the durations of the GPU events, us
//   doubtful: joined ones that fit another call, too
//   implausible: GPU events left out: their kernels cannot be the work of the ops in their place
//   lost: captured calls that replays lack
//   extra: GPU events of replays without a captured call
//   what: names of what is odd, lost or extra
//   uid: the first of the launches
WITH {trace: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (g:CapturedGraph) WHERE g.trace = t.id
MATCH (r:RuntimeCall)-[:REPLAY_OF]->(g)
WITH g, count(*) AS replays, sum(r.gpu_sum_ns) AS ns, min(r.uid) AS uid
RETURN g.file AS capture, g.graph AS graph, g.batch_size AS batch_size, g.mode AS mode, g.rule AS rule, replays,
       g.least_batch AS least_batch, g.greatest_batch AS greatest_batch, g.calls AS calls, g.gpu_events AS gpu_events,
       g.joined AS joined, CASE WHEN g.gpu_events > 0 THEN 100.0 * g.joined / g.gpu_events ELSE 0.0 END AS percent_joined,
       ns / 1e3 AS gpu_time_us, g.doubtful AS doubtful, g.implausible AS implausible, g.lost AS lost, g.extra AS extra,
       g.what AS what, uid
ORDER BY ns DESC, uid
