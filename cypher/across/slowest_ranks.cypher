// Slowest ranks: which ranks of a run the others waited for, and how long each waited itself.
//
// Over all collectives that two ranks at least took part in, the ranks that waited least first: they come late. Where
// the clocks of ranks differ, go by `collective_us`: who comes late has the least. Left out are collectives whose kernels
// neither overlap nor end within 0.1 ms of one another.
//
// Parameters:
//   run: name of a run; null for that of the trace that was pushed last
//   kind: only collectives of this kind, such as allreduce; null for all
//
// Columns:
//   trace: name of the rank's trace
//   rank: number of the rank; null where not recorded
//   collectives: collectives that it took part in together with others
//   times_last: collectives to which no rank came later
//   times_first: collectives to which no rank came earlier
//   wait_us: sum of the time from its own starts to the last starts, us
//   mean_wait_us: the same per collective, us
//   collective_us: sum of the durations of the collectives, waiting included, us
WITH {run: null, kind: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.run IS NULL OR t.run = p.run
WITH p, t.run AS run, t.pushed_ns AS pushed ORDER BY pushed DESC LIMIT 1
MATCH (c:Collective)<-[:MEMBER_OF]-(k:Kernel|Annotation)
WHERE c.run = run AND c.key >= '' AND (p.kind IS NULL OR c.name = p.kind)
WITH c, k.trace AS trace, min(k.start_ns) AS start, max(k.end_ns) AS end
MATCH (t:Trace {id: trace, state: 'complete'})
WITH c, collect({t: t, start: t.start_epoch_ns + start, dur: end - start}) AS parts,
     min(t.start_epoch_ns + start) AS first, max(t.start_epoch_ns + start) AS last,
     min(t.start_epoch_ns + end) AS ended, max(t.start_epoch_ns + end) AS over
WHERE size(parts) > 1 AND (last < ended OR over - ended <= 100000)
UNWIND parts AS part
WITH part.t AS t, part.dur AS dur, last - part.start AS wait, part.start = first AS came_first
WITH t, count(*) AS collectives, sum(wait) AS wait, sum(dur) AS dur,
     sum(CASE WHEN wait = 0 THEN 1 ELSE 0 END) AS times_last,
     sum(CASE WHEN came_first THEN 1 ELSE 0 END) AS times_first
RETURN t.name AS trace, t.rank AS rank, collectives, times_last, times_first, wait / 1000.0 AS wait_us,
       toFloat(wait) / collectives / 1000.0 AS mean_wait_us, dur / 1000.0 AS collective_us
ORDER BY wait, t.name
