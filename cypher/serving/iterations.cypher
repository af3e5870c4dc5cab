// Iterations of a server: what each computed, and how long the GPU took for it.
//
// Iterations were found when the trace was pushed: annotations of the engine, ranges of one name, or calls that repeat.
// A GPU event belongs to the iteration in which it was launched. The last line is for GPU events launched in none.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//
// Columns:
//   iteration: number of the iteration, from 0; absent on the line of GPU events launched in none
//   phase: prefill, mixed, decode, denoise, empty, or unknown; (between) on that line
//   requests: requests computed together
//   context_requests: those that read their prompts
//   context_tokens: tokens of prompts that it reads
//   generation_requests: those that write their answers
//   generation_tokens: tokens of answers, guessed ones included
//   keys: tokens that requests attend to, past and new ones
//   captured: batch size of the captured graph that it replays
//   padding: places of the captured batch that are empty
//   start_ms: its start on the host, as Perfetto UI shows it, ms
//   host_ms: its duration on the host, ms
//   device_ms: from the first start of its GPU work to the first start of that of later ones, ms
//   gpu_events: GPU events launched in it
//   gpu_sum_ms: sum of their durations, ms
//   busy_ms: time in which any of them runs, ms
//   idle_ms: part of device_ms in which no GPU event runs, ms
//   gap_ms: idle time of the GPU between work of another iteration, or of none, and its own, ms
//   gap_cause: what most of the longest of these gaps is due to
//   host_gap_ms: time on the host from the end of the iteration before it, of its process, to its start, ms
//   tokens_per_s: tokens of prompts and answers by device_ms, 1/s
//   uid: uid of the annotation, or of its first call
WITH {trace: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (t) {
  MATCH (k:GpuEvent)
  WHERE k.trace = t.id
  WITH coalesce(k.iteration, -1) AS iteration, k ORDER BY k.start_ns
  WITH iteration, collect([k.start_ns, k.end_ns]) AS events
  RETURN collect({iteration: iteration, events: events}) AS work
}
CALL (t) {
  MATCH (ended:GpuEvent)-[:BEFORE]->(g:Gap {trace: t.id})<-[:AFTER]-(k:GpuEvent)
  WHERE k.iteration IS NULL OR coalesce(ended.iteration, -1) <> k.iteration
  WITH coalesce(k.iteration, -1) AS iteration, g ORDER BY g.number
  WITH iteration, sum(g.dur_ns) AS ns, head(collect(g.cause)) AS cause
  RETURN collect({iteration: iteration, ns: ns, cause: cause}) AS gaps
}
CALL (t) {
  MATCH (a:Event)
  WHERE a.trace = t.id AND a.phase IS NOT NULL
  RETURN collect(a {
    .iteration, .phase, .requests, .context_requests, .context_tokens, .generation_requests, .generation_tokens, .keys,
    .captured, .padding, .host_ns, .host_gap_ns, .device_ns, .idle_ns, .uid,
    start_ms: (a.start_ns + coalesce(t.lead_ns, 0)) / 1e6
  }) AS begins
}
UNWIND CASE WHEN size(begins) = 0 THEN [] ELSE begins + [{iteration: -1, phase: '(between)'}] END AS i
WITH i, coalesce(head([w IN work WHERE w.iteration = i.iteration]).events, []) AS events,
  head([g IN gaps WHERE g.iteration = i.iteration]) AS gap
WHERE i.iteration >= 0 OR size(events) > 0
// The union of intervals in the order of their starts: [its length so far, the end that it reaches to].
WITH i, events, gap, reduce(u = [0, 0], e IN events |
  CASE
    WHEN e[0] >= u[1] THEN [u[0] + e[1] - e[0], e[1]]
    WHEN e[1] > u[1] THEN [u[0] + e[1] - u[1], e[1]]
    ELSE u
  END)[0] AS busy
WITH *, i.context_tokens + i.generation_tokens AS tokens
RETURN CASE WHEN i.iteration >= 0 THEN i.iteration END AS iteration, i.phase AS phase, i.requests AS requests,
  i.context_requests AS context_requests, i.context_tokens AS context_tokens,
  i.generation_requests AS generation_requests, i.generation_tokens AS generation_tokens, i.keys AS keys,
  i.captured AS captured, i.padding AS padding, i.start_ms AS start_ms, i.host_ns / 1e6 AS host_ms,
  i.device_ns / 1e6 AS device_ms, size(events) AS gpu_events,
  reduce(sum = 0, e IN events | sum + e[1] - e[0]) / 1e6 AS gpu_sum_ms, busy / 1e6 AS busy_ms,
  i.idle_ns / 1e6 AS idle_ms, coalesce(gap.ns, 0) / 1e6 AS gap_ms, gap.cause AS gap_cause,
  i.host_gap_ns / 1e6 AS host_gap_ms,
  CASE WHEN tokens > 0 THEN tokens * 1e9 / i.device_ns END AS tokens_per_s, i.uid AS uid
ORDER BY i.iteration < 0, i.iteration
