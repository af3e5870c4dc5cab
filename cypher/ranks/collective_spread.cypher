// Collective spread: how far apart the ranks of a run began each collective, how long they took, and who came last.
//
// Collectives that two ranks at least took part in, those with the most waiting first; clocks of several hosts are
// corrected. `db push` matches the collectives of a run whose ranks are pushed together.
//
// Parameters:
//   run: name of a run; null for that of the trace that was pushed last
//   kind: only collectives of this kind, such as allreduce; null for all
//   top: number of collectives; 0 for all
//
// Columns:
//   kind: kind of collective
//   group: what the program calls its process group, else the group's name; null where not recorded
//   sequence: number of the collective in its group; null where not recorded
//   collective: key of the collective on the rank that came last
//   ranks: ranks whose traces have it
//   first_start_us: start of the rank that came first, from the first start of a trace of the run, us
//   last_start_us: start of the rank that came last, us
//   start_skew_us: last start less first start, us
//   end_skew_us: last end less first end, us
//   wait_us: sum over the ranks of the time from their own start to the last one, or to their own end, us
//   shortest_us: duration on the rank where it was shortest, us
//   longest_us: duration on the rank where it was longest, us
//   duration_spread_us: greatest less smallest duration, us
//   last_trace: name of the trace of the rank that came last
//   last_rank: number of that rank; null where not recorded
WITH {run: null, kind: null, top: 20} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.run IS NULL OR t.run = p.run
WITH p, t.run AS run, t.pushed_ns AS pushed ORDER BY pushed DESC, t.id LIMIT 1
MATCH (g:Matching {run: run, state: 'complete'})
MATCH (c:Meeting)
WHERE c.run = run AND (p.kind IS NULL OR c.name = p.kind)
WITH p, c ORDER BY c.wait_ns DESC, c.number
WITH p, collect(c) AS rows
UNWIND rows[..CASE p.top WHEN 0 THEN size(rows) ELSE p.top END] AS c
RETURN c.name AS kind, c.group AS group, c.sequence AS sequence, c.key AS collective, c.ranks AS ranks,
       c.start_ns / 1000.0 AS first_start_us, (c.start_ns + c.start_skew_ns) / 1000.0 AS last_start_us,
       c.start_skew_ns / 1000.0 AS start_skew_us, c.end_skew_ns / 1000.0 AS end_skew_us, c.wait_ns / 1000.0 AS wait_us,
       c.shortest_ns / 1000.0 AS shortest_us, c.longest_ns / 1000.0 AS longest_us,
       (c.longest_ns - c.shortest_ns) / 1000.0 AS duration_spread_us, c.last_trace AS last_trace,
       c.last_rank AS last_rank
