// Incomplete traces: which traces of the database lack something, and what.
//
// Traces that are being pushed or dropped answer no other query; damaged files and lean pushes lack events.
//
// Parameters:
//   run: name of a run; null for all
//
// Columns:
//   run: name of the run
//   trace: name of the trace
//   rank: rank in its job
//   state: loading, complete or dropping
//   damage: what was repaired in the file and what was lost; absent for a sound file
//   lean: whether events were left out when it was pushed
//   options: of a lean push, what was pushed, JSON
//   entries: entries of the file's event list
//   nodes: events that were pushed
WITH {run: null} AS p
MATCH (t:Trace)
WHERE (p.run IS NULL OR t.run = p.run) AND (t.state <> 'complete' OR t.damage IS NOT NULL OR t.lean)
RETURN t.run AS run, t.name AS trace, t.rank AS rank, t.state AS state, t.damage AS damage,
  coalesce(t.lean, false) AS lean, CASE WHEN t.lean THEN t.options END AS options, t.events AS entries, t.nodes AS nodes
ORDER BY run, rank, trace
