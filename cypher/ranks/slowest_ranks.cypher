// Slowest ranks: which ranks of a run the others waited for, and how long each waited itself.
//
// Over all collectives that two ranks at least took part in, the ranks that waited least first: they come late. Where
// clocks cannot be compared, go by `collective_us`: who comes late has the least. `db push` matches the collectives of
// a run whose ranks are pushed together.
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
//   wait_us: sum of the time from its own starts to the last starts, or to its own ends, us
//   mean_wait_us: the same per collective, us
//   collective_us: sum of the durations of the collectives, waiting included, us
WITH {run: null, kind: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.run IS NULL OR t.run = p.run
WITH p, t.run AS run, t.pushed_ns AS pushed ORDER BY pushed DESC, t.id LIMIT 1
MATCH (g:Matching {run: run, state: 'complete'})
MATCH (c:Meeting)<-[m:MEMBER_OF]-(k)
WHERE c.run = run AND (p.kind IS NULL OR c.name = p.kind)
WITH g, k.trace AS id, count(*) AS collectives, sum(m.wait_ns) AS wait, sum(m.end_ns - m.start_ns) AS dur,
     sum(CASE m.start_ns WHEN c.start_ns + c.start_skew_ns THEN 1 ELSE 0 END) AS times_last,
     sum(CASE m.start_ns WHEN c.start_ns THEN 1 ELSE 0 END) AS times_first
MATCH (g)-[o:OF_RANK]->(t:Trace {id: id})
RETURN t.name AS trace, o.rank AS rank, collectives, times_last, times_first, wait / 1000.0 AS wait_us,
       toFloat(wait) / collectives / 1000.0 AS mean_wait_us, dur / 1000.0 AS collective_us
ORDER BY wait, t.name, t.id
