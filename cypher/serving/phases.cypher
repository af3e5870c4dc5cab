// Phases of a server: what its time went to, prompts, answers, or both at once.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//
// Columns:
//   phase: prefill, mixed, decode, denoise, empty, unknown; (between) for GPU work in no iteration
//   iterations: iterations
//   requests: mean number of requests computed together
//   context_tokens: tokens of prompts read
//   generation_tokens: tokens of answers written, guessed ones included
//   device_ms: sum of the iterations' lengths on the device, ms
//   percent_of_device: share of that sum over all phases, %
//   step_ms: median length of an iteration on the device, ms
//   host_ms: median length of an iteration on the host, ms
//   token_us: device_ms by the tokens of prompts and answers, us
//   tokens_per_s: tokens of prompts and answers by device_ms, 1/s
//   gpu_sum_ms: sum of the durations of its GPU events, ms
//   busy_ms: time in which any of its GPU events runs, ms
//   idle_percent: part of device_ms in which no GPU event runs, %
//   gap_ms: idle time of the GPU between work of another iteration, or of none, and that of this phase, ms; null where
//     there is one iteration alone
//   padding_percent: places of captured batches that are empty, where they are known, %
//   attention_percent: share of attention in gpu_sum_ms, by names of kernels, %
WITH {trace: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (t) {
  MATCH (a:Event)
  WHERE a.trace = t.id AND a.phase IS NOT NULL
  WITH a.phase AS phase, collect(a.iteration) AS numbers, avg(a.requests) AS requests,
    CASE WHEN count(a.context_tokens) > 0 THEN sum(a.context_tokens) END AS context,
    CASE WHEN count(a.generation_tokens) > 0 THEN sum(a.generation_tokens) END AS generation,
    CASE WHEN count(a.context_tokens + a.generation_tokens) > 0
      THEN sum(a.context_tokens + a.generation_tokens) END AS tokens,
    sum(a.device_ns) AS device, sum(a.idle_ns) AS idle, percentileCont(a.device_ns, 0.5) AS step,
    percentileCont(a.host_ns, 0.5) AS host, sum(a.padding) AS padding,
    sum(CASE WHEN a.padding IS NOT NULL THEN a.captured END) AS captured
  RETURN collect({
    phase: phase, numbers: numbers, requests: requests, context: context, generation: generation, tokens: tokens,
    device: device, idle: idle, step: step, host: host, padding: padding, captured: captured
  }) AS phases
}
WITH t, phases, reduce(sum = 0, f IN phases | sum + f.device) AS whole,
  reduce(sum = 0, f IN phases | sum + size(f.numbers)) AS iterations
UNWIND CASE WHEN size(phases) = 0 THEN [] ELSE phases + [{phase: '(between)', numbers: [], device: 0}] END AS f
CALL (t, f) {
  MATCH (k:GpuEvent)
  WHERE k.trace = t.id AND (k.iteration IN f.numbers OR (f.phase = '(between)' AND k.iteration IS NULL))
  WITH k ORDER BY k.start_ns
  RETURN collect([k.start_ns, k.end_ns]) AS events,
    sum(CASE WHEN k.category CONTAINS 'ttention' THEN k.dur_ns END) AS attention
}
CALL (t, f) {
  MATCH (ended:GpuEvent)-[:BEFORE]->(g:Gap {trace: t.id})<-[:AFTER]-(k:GpuEvent)
  WHERE (k.iteration IN f.numbers OR (f.phase = '(between)' AND k.iteration IS NULL))
    AND (k.iteration IS NULL OR coalesce(ended.iteration, -1) <> k.iteration)
  RETURN sum(g.dur_ns) AS gap
}
WITH *, reduce(sum = 0, e IN events | sum + e[1] - e[0]) AS gpu_sum
WHERE f.phase <> '(between)' OR gpu_sum > 0
// The union of intervals in the order of their starts: [its length so far, the end that it reaches to].
WITH *, reduce(u = [0, 0], e IN events |
  CASE
    WHEN e[0] >= u[1] THEN [u[0] + e[1] - e[0], e[1]]
    WHEN e[1] > u[1] THEN [u[0] + e[1] - u[1], e[1]]
    ELSE u
  END)[0] AS busy
RETURN f.phase AS phase, size(f.numbers) AS iterations, f.requests AS requests, f.context AS context_tokens,
  f.generation AS generation_tokens, f.device / 1e6 AS device_ms,
  100.0 * f.device / CASE WHEN whole > 1 THEN whole ELSE 1 END AS percent_of_device, f.step / 1e6 AS step_ms,
  f.host / 1e6 AS host_ms, CASE WHEN f.tokens > 0 THEN f.device / 1e3 / f.tokens END AS token_us,
  CASE WHEN f.device > 0 THEN f.tokens * 1e9 / f.device END AS tokens_per_s, gpu_sum / 1e6 AS gpu_sum_ms,
  busy / 1e6 AS busy_ms, CASE WHEN f.device > 0 THEN 100.0 * f.idle / f.device END AS idle_percent,
  CASE WHEN iterations > 1 OR f.phase = '(between)' THEN gap / 1e6 END AS gap_ms,
  CASE WHEN f.captured > 0 THEN 100.0 * f.padding / f.captured END AS padding_percent,
  CASE WHEN gpu_sum > 0 THEN 100.0 * attention / gpu_sum ELSE 0 END AS attention_percent
ORDER BY reduce(at = 0, n IN range(0, 6) |
  CASE WHEN ['prefill', 'mixed', 'decode', 'denoise', 'empty', 'unknown', '(between)'][n] = f.phase THEN n ELSE at END)
