// Collective spread: how far apart the ranks of a run began each collective, how long they took, and who came last.
//
// Collectives that two ranks at least took part in, those with the most waiting first. Ranks are put on one clock by
// the absolute starts of their traces; a rank that waits for the last one runs its kernel meanwhile. Where ends lie
// apart, clocks differ, or ranks do not wait for one another; durations do not depend on clocks. Left out are collectives
// whose kernels neither overlap nor end within 0.1 ms of one another.
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
//   collective: key of the collective, the same on all ranks
//   ranks: ranks whose traces have it
//   first_start_us: start of the rank that came first, from the first start of a trace of the run, us
//   last_start_us: start of the rank that came last, us
//   start_skew_us: last start less first start, us
//   end_skew_us: last end less first end, us
//   wait_us: sum over the ranks of the time from their own start to the last start, us
//   shortest_us: duration on the rank where it was shortest, us
//   longest_us: duration on the rank where it was longest, us
//   duration_spread_us: greatest less smallest duration, us
//   last_trace: name of the trace of the rank that came last
//   last_rank: number of that rank; null where not recorded
WITH {run: null, kind: null, top: 20} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.run IS NULL OR t.run = p.run
WITH p, t ORDER BY t.pushed_ns DESC LIMIT 1
MATCH (t0:Trace {state: 'complete'})
WHERE t0.run = t.run
WITH p, t.run AS run, min(t0.start_epoch_ns) AS zero
MATCH (c:Collective)-[:IN_GROUP]->(g:ProcessGroup)
WHERE c.run = run AND c.key >= '' AND (p.kind IS NULL OR c.name = p.kind)
MATCH (c)<-[:MEMBER_OF]-(k:Kernel|Annotation)
WITH p, zero, c, g, k.trace AS trace, min(k.start_ns) AS start, max(k.end_ns) AS end
MATCH (t:Trace {id: trace, state: 'complete'})
WITH p, c, g, t, t.start_epoch_ns - zero + start AS start, t.start_epoch_ns - zero + end AS end
ORDER BY start DESC, t.rank, t.name
WITH p, c, g, collect(t)[0] AS late, count(*) AS ranks, min(start) AS first, max(start) AS last, sum(start) AS starts,
     min(end) AS ended, max(end) - min(end) AS end_skew, min(end - start) AS shortest, max(end - start) AS longest
WHERE ranks > 1 AND (last < ended OR end_skew <= 100000)
WITH *, ranks * last - starts AS wait ORDER BY wait DESC, first, c.key
WITH p, collect({c: c, g: g, late: late, ranks: ranks, first: first, last: last, end_skew: end_skew, wait: wait,
                 shortest: shortest, longest: longest}) AS rows
UNWIND rows[..CASE p.top WHEN 0 THEN size(rows) ELSE p.top END] AS r
RETURN r.c.name AS kind, coalesce(r.g.description, nullIf(r.g.name, r.g.key)) AS group, r.c.sequence AS sequence,
       r.c.key AS collective, r.ranks AS ranks, r.first / 1000.0 AS first_start_us, r.last / 1000.0 AS last_start_us,
       (r.last - r.first) / 1000.0 AS start_skew_us, r.end_skew / 1000.0 AS end_skew_us, r.wait / 1000.0 AS wait_us,
       r.shortest / 1000.0 AS shortest_us, r.longest / 1000.0 AS longest_us,
       (r.longest - r.shortest) / 1000.0 AS duration_spread_us, r.late.name AS last_trace, r.late.rank AS last_rank
