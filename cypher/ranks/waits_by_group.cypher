// Waits by group: how long the ranks of each process group of a run waited for one another, by kind of collective.
//
// One row per process group and kind, those with the most waiting first. A process group is told by its ranks; by its
// name where these are not recorded. `db push` matches the collectives of a run whose ranks are pushed together.
//
// Parameters:
//   run: name of a run; null for that of the trace that was pushed last
//   kind: only collectives of this kind, such as allreduce; null for all
//
// Columns:
//   group: what the program calls the process group, else its name; null where not recorded
//   group_ranks: ranks of the group, JSON; null where not recorded
//   kind: kind of collective
//   ranks: most ranks whose traces have one of them
//   collectives: number of collectives
//   wait_us: sum over collectives and ranks of the time until the last rank came, us
//   transfer_us: sum of the time from then on until the first rank left, us
//   end_skew_us: sum of the time after the first rank left, us
//   wait_percent: waiting as share of these three, %
//   mean_wait_us: waiting per collective and rank, us
//   longest_wait_us: longest that one rank waited, us
//   last_trace: name of the trace that was waited for longest: waiting counts for the rank that came last
//   last_rank: number of that rank; null where not recorded
//   last_wait_us: waiting for that rank, summed over the others, us
WITH {run: null, kind: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.run IS NULL OR t.run = p.run
WITH p, t.run AS run, t.pushed_ns AS pushed ORDER BY pushed DESC, t.id LIMIT 1
MATCH (g:Matching {run: run, state: 'complete'})
MATCH (c:Meeting)<-[m:MEMBER_OF]-()
WHERE c.run = run AND (p.kind IS NULL OR c.name = p.kind)
WITH c, count(*) AS parts, sum(m.wait_ns) AS wait, sum(m.transfer_ns) AS transfer, sum(m.end_skew_ns) AS end_skew,
     max(m.wait_ns) AS longest
WITH c.process_group AS group, c.name AS kind, c.last_trace AS last_trace, c.last_rank AS last_rank,
     min(c.group) AS name, min(c.group_ranks) AS group_ranks, max(c.ranks) AS ranks, count(*) AS collectives,
     sum(parts) AS parts, sum(wait) AS wait, sum(transfer) AS transfer, sum(end_skew) AS end_skew,
     max(longest) AS longest
ORDER BY wait DESC, last_rank, last_trace
WITH group, kind, min(name) AS name, min(group_ranks) AS group_ranks, max(ranks) AS ranks,
     sum(collectives) AS collectives, sum(parts) AS parts, sum(wait) AS wait, sum(transfer) AS transfer,
     sum(end_skew) AS end_skew, max(longest) AS longest,
     collect({trace: last_trace, rank: last_rank, wait: wait})[0] AS late
WITH *, wait + transfer + end_skew AS total
RETURN name AS group, group_ranks, kind, ranks, collectives, wait / 1000.0 AS wait_us,
       transfer / 1000.0 AS transfer_us, end_skew / 1000.0 AS end_skew_us,
       CASE WHEN total > 0 THEN 100.0 * wait / total END AS wait_percent,
       toFloat(wait) / parts / 1000.0 AS mean_wait_us, longest / 1000.0 AS longest_wait_us, late.trace AS last_trace,
       late.rank AS last_rank, late.wait / 1000.0 AS last_wait_us
ORDER BY wait DESC, kind, coalesce(name, ''), coalesce(group_ranks, '')
