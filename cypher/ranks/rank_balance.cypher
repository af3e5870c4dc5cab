// Balance of ranks: how long each rank of a run waited and communicated, and how often it came last.
//
// Collectives with at least two ranks count. The ranks that waited least come late. If clocks cannot be compared, use
// `collective_ms`: the ranks with the least come late. `db push` matches the collectives of a run whose ranks are
// pushed together.
//
// Parameters:
//   run: name of a run; null for that of the trace that was pushed last
//   kind: only collectives of this kind, such as allreduce; null for all
//   late_first: the ranks that waited least first, and none that shared no collective; else ranks by their numbers
//
// Columns:
//   trace: name of the rank's trace
//   rank: number of the rank; null where not recorded
//   host: number of its host; null where not known
//   span_ms: from the first to the last GPU event; of a trace without any its steps, else its collectives, ms
//   computing_ms: time in which computation runs on the GPU, ms; null without GPU work
//   collectives: collectives that it took part in together with others
//   wait_ms: sum of the time from its own starts to the last starts, or to its own ends, ms
//   transfer_ms: sum of the time from then on until the first rank left after all had come, ms
//   end_skew_ms: sum of the time after that, ms
//   collective_ms: sum of these three: the durations of its collectives, ms
//   mean_wait_us: waiting per collective, us; null where it took part in none
//   times_last: collectives to which it came last; ties go to the smallest rank
//   times_among_last: collectives to which no rank came later
//   times_first: collectives to which no rank came earlier
//   held_up_ms: how much later than the median of the others it came, summed over collectives to which it came
//     last, without delays by slow links, ms
//   percent_last: share of its collectives to which it came last, %
//   bubble_ms: of a pipeline stage: time of its steps in which it neither computes nor communicates, ms
//   exchanged_bytes: what it got in uneven all-to-alls, bytes; null where there are none
WITH {run: null, kind: null, late_first: false} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.run IS NULL OR t.run = p.run
WITH p, t.run AS run, t.pushed_ns AS pushed ORDER BY pushed DESC, t.id LIMIT 1
MATCH (g:Matching {run: run, state: 'complete'})
OPTIONAL MATCH (c:Meeting)<-[m:MEMBER_OF]-(k)
WHERE c.run = run AND (p.kind IS NULL OR c.name = p.kind)
WITH p, g, k.trace AS id, count(m) AS collectives, sum(m.wait_ns) AS wait, sum(m.transfer_ns) AS transfer,
     sum(m.end_skew_ns) AS end_skew,
     sum(CASE WHEN m.behind_ns > 0 THEN 1 ELSE 0 END) AS times_last, sum(m.held_up_ns) AS held_up,
     sum(CASE m.start_ns WHEN c.start_ns + c.start_skew_ns THEN 1 ELSE 0 END) AS times_among_last,
     sum(CASE m.start_ns WHEN c.start_ns THEN 1 ELSE 0 END) AS times_first
WITH p, g, collect({id: id, collectives: collectives, wait: wait, transfer: transfer, end_skew: end_skew,
                    times_last: times_last, held_up: held_up, times_among_last: times_among_last,
                    times_first: times_first}) AS found
MATCH (g)-[o:OF_RANK]->(t:Trace)
WITH p, o, t, head([one IN found WHERE one.id = t.id]) AS x
WHERE x IS NOT NULL OR NOT p.late_first
WITH p, o, t, coalesce(x.collectives, 0) AS collectives, coalesce(x.wait, 0) AS wait,
     coalesce(x.transfer, 0) AS transfer, coalesce(x.end_skew, 0) AS end_skew,
     coalesce(x.times_last, 0) AS times_last, coalesce(x.held_up, 0) AS held_up,
     coalesce(x.times_among_last, 0) AS times_among_last, coalesce(x.times_first, 0) AS times_first
RETURN t.name AS trace, o.rank AS rank, o.host AS host, o.span_ns / 1000000.0 AS span_ms,
       o.computing_ns / 1000000.0 AS computing_ms, collectives, wait / 1000000.0 AS wait_ms,
       transfer / 1000000.0 AS transfer_ms, end_skew / 1000000.0 AS end_skew_ms,
       (wait + transfer + end_skew) / 1000000.0 AS collective_ms,
       CASE WHEN collectives > 0 THEN toFloat(wait) / collectives / 1000.0 END AS mean_wait_us, times_last,
       times_among_last, times_first, held_up / 1000000.0 AS held_up_ms,
       CASE WHEN collectives > 0 THEN 100.0 * times_last / collectives ELSE 0.0 END AS percent_last,
       o.bubble_ns / 1000000.0 AS bubble_ms, o.exchanged_bytes AS exchanged_bytes
ORDER BY CASE WHEN p.late_first THEN wait END, CASE WHEN NOT p.late_first THEN o.rank END, t.name, t.id
