// Kinds of collectives: what those of equal kind and size, or of one process group, cost the ranks of a run.
//
// One row per kind, number of ranks and size of the message, the most time first; or one per process group and kind,
// the most waiting first. A process group is known by its ranks, by its name where these are not recorded. `db push`
// matches the collectives of a run whose ranks are pushed together.
//
// Parameters:
//   run: name of a run; null for that of the trace that was pushed last
//   kind: only collectives of this kind, such as allreduce; null for all
//   by: 'size', or 'group' for process groups
//
// Columns:
//   kind: kind of collective
//   ranks: ranks of the process group; of several groups the most
//   message_bytes: size of the message, bytes; null where not recorded, or where sizes differ
//   group: what the program calls the process group, else its name; null where not recorded, or of several groups
//   group_ranks: ranks of that group, JSON; null where not recorded
//   recorded_ranks: most ranks whose traces have one of them
//   count: number of collectives
//   latency_ms: sum of their latencies: how long the ranks that came last took, ms
//   wait_ms: sum over collectives and ranks of the time until the last rank came, ms
//   transfer_ms: sum of the time from then on until the first rank left, ms
//   end_skew_ms: sum of the time after the first rank left, ms
//   wait_percent: waiting as share of these three, %
//   mean_wait_us: waiting per collective and rank, us
//   longest_wait_us: longest that one rank waited, us
//   last_trace: name of the trace that was waited for longest: waiting counts for the rank that came last
//   last_rank: number of that rank; null where not recorded
//   last_wait_ms: waiting for that rank, summed over the others, ms
//   median_latency_us: median of the latencies, us
//   median_start_skew_us: median of last start less first start, us
//   median_busbw_gb_s: median of the bus bandwidths, GB/s
//   peak_gb_s: rate of the links of the device within a host, GB/s; null where not known
//   percent_of_peak: median bus bandwidth as share of that rate, %
WITH {run: null, kind: null, by: 'size'} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.run IS NULL OR t.run = p.run
WITH p, t.run AS run, t.pushed_ns AS pushed ORDER BY pushed DESC, t.id LIMIT 1
MATCH (g:Matching {run: run, state: 'complete'})
MATCH (c:Meeting)<-[m:MEMBER_OF]-()
WHERE c.run = run AND (p.kind IS NULL OR c.name = p.kind)
WITH p, c, count(*) AS parts, sum(m.wait_ns) AS wait, sum(m.transfer_ns) AS transfer, sum(m.end_skew_ns) AS end_skew,
     max(m.wait_ns) AS longest, coalesce(c.group_size, c.ranks) AS ranks
WITH p, c.name AS kind, CASE p.by WHEN 'group' THEN [c.process_group] ELSE [ranks, c.message_bytes] END AS alike,
     min(c.process_group) = max(c.process_group) AS is_one_group, min(c.group) AS name,
     min(c.group_ranks) AS group_ranks, max(ranks) AS ranks, max(c.ranks) AS recorded,
     CASE WHEN min(coalesce(c.message_bytes, -1)) = max(c.message_bytes) THEN max(c.message_bytes) END AS message_bytes,
     count(*) AS collectives, sum(parts) AS parts, sum(c.latency_ns) AS latency, sum(wait) AS wait,
     sum(transfer) AS transfer, sum(end_skew) AS end_skew, max(longest) AS longest,
     percentileCont(c.latency_ns, 0.5) AS median_latency, percentileCont(c.start_skew_ns, 0.5) AS median_skew,
     percentileCont(c.busbw_gb_s, 0.5) AS bus, percentileCont(c.peak_gb_s, 0.5) AS peak,
     collect({trace: c.last_trace, rank: c.last_rank, wait: wait}) AS every
CALL (every) {
  UNWIND every AS one
  WITH one.trace AS trace, one.rank AS rank, sum(one.wait) AS wait ORDER BY wait DESC, rank, trace LIMIT 1
  RETURN {trace: trace, rank: rank, wait: wait} AS late
}
WITH *, wait + transfer + end_skew AS total, CASE WHEN is_one_group THEN name END AS group,
     CASE WHEN is_one_group THEN group_ranks END AS of_group
RETURN kind, ranks, message_bytes, group, of_group AS group_ranks, recorded AS recorded_ranks, collectives AS count,
       latency / 1000000.0 AS latency_ms, wait / 1000000.0 AS wait_ms, transfer / 1000000.0 AS transfer_ms,
       end_skew / 1000000.0 AS end_skew_ms, CASE WHEN total > 0 THEN 100.0 * wait / total END AS wait_percent,
       toFloat(wait) / parts / 1000.0 AS mean_wait_us, longest / 1000.0 AS longest_wait_us, late.trace AS last_trace,
       late.rank AS last_rank, late.wait / 1000000.0 AS last_wait_ms, median_latency / 1000.0 AS median_latency_us,
       median_skew / 1000.0 AS median_start_skew_us, bus AS median_busbw_gb_s, peak AS peak_gb_s,
       100.0 * bus / peak AS percent_of_peak
ORDER BY wait + CASE p.by WHEN 'group' THEN 0 ELSE latency END DESC, kind,
         CASE p.by WHEN 'group' THEN coalesce(group, '') ELSE ranks END,
         CASE p.by WHEN 'group' THEN coalesce(of_group, '') ELSE coalesce(message_bytes, 0) END
