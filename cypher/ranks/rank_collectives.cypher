// Collectives of ranks: what each collective of a run cost, how far apart the ranks began it, and who came last.
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
//   collective: number of the collective, by first start
//   kind: kind of collective
//   group: what the program calls its process group, else the group's name; null where not recorded
//   group_ranks: ranks of that group, JSON; null where not recorded
//   source_rank: number of the rank that sends; null unless both ends of a transfer are known
//   target_rank: number of the rank that receives; null likewise
//   sequence: number of the collective in its group; null where not recorded
//   step: number of the step in which most ranks launched it; null outside of steps
//   ranks: ranks whose traces have it
//   group_size: ranks of the process group; null where not recorded
//   hosts: hosts of the ranks that have it; null where not known
//   start_us: start of the rank that came first, from the first start of a trace of the run, us
//   last_start_us: start of the rank that came last, us
//   start_skew_us: last start less first start, us
//   recorded_start_skew_us: the same with clocks as recorded, us
//   wait_us: sum over the ranks of the time from their own start to the last one, or to their own end, us
//   latency_us: duration on the rank that came last: communication without waiting, us
//   shortest_us: duration on the rank where it was shortest, us
//   longest_us: duration on the rank where it was longest, us
//   duration_spread_us: greatest less smallest duration, us
//   end_skew_us: last end less first end, us
//   message_bytes: size of the message by the rule of its kind, bytes; null where not recorded
//   algbw_gb_s: algorithm bandwidth: size of the message over the latency, GB/s; null without sizes
//   busbw_gb_s: bus bandwidth: the same times the factor of NCCL's tests for its kind, GB/s
//   peak_gb_s: rate of the links of the device within a host, GB/s; null where not known
//   percent_of_peak: bus bandwidth as share of that rate, %
//   overlapped_us: sum over the ranks of the time in which the same rank computes, us; null without GPU work
//   exposed_us: sum over the ranks of the time in which the same rank does not compute, us
//   last_trace: name of the trace of the rank that came last
//   last_rank: number of that rank; null where not recorded
//   key: key of the collective on the rank that came last
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
RETURN c.number AS collective, c.name AS kind, c.group AS group, c.group_ranks AS group_ranks,
       c.source_rank AS source_rank, c.target_rank AS target_rank, c.sequence AS sequence, c.step AS step,
       c.ranks AS ranks, c.group_size AS group_size, c.hosts AS hosts, c.start_ns / 1000.0 AS start_us,
       (c.start_ns + c.start_skew_ns) / 1000.0 AS last_start_us, c.start_skew_ns / 1000.0 AS start_skew_us,
       c.recorded_start_skew_ns / 1000.0 AS recorded_start_skew_us, c.wait_ns / 1000.0 AS wait_us,
       c.latency_ns / 1000.0 AS latency_us, c.shortest_ns / 1000.0 AS shortest_us,
       c.longest_ns / 1000.0 AS longest_us, (c.longest_ns - c.shortest_ns) / 1000.0 AS duration_spread_us,
       c.end_skew_ns / 1000.0 AS end_skew_us, c.message_bytes AS message_bytes, c.algbw_gb_s AS algbw_gb_s,
       c.busbw_gb_s AS busbw_gb_s, c.peak_gb_s AS peak_gb_s, c.percent_of_peak AS percent_of_peak,
       c.overlapped_ns / 1000.0 AS overlapped_us, c.exposed_ns / 1000.0 AS exposed_us, c.last_trace AS last_trace,
       c.last_rank AS last_rank, c.key AS key
