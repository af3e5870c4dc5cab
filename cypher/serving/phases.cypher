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
//   gpu_sum_ms: sum of the durations of its GPU events, ms
//   busy_ms: time in which any of its GPU events runs, ms
WITH {trace: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (t) {
  MATCH (a:Event)
  WHERE a.trace = t.id AND a.phase IS NOT NULL
  WITH a.phase AS phase, collect(a) AS begins
  RETURN collect({
    phase: phase, numbers: [a IN begins | a.iteration], requests: [a IN begins WHERE a.requests IS NOT NULL | a.requests],
    context: [a IN begins WHERE a.context_tokens IS NOT NULL | a.context_tokens],
    generation: [a IN begins WHERE a.generation_tokens IS NOT NULL | a.generation_tokens]
  }) AS phases
}
UNWIND CASE WHEN size(phases) = 0 THEN [] ELSE phases + [{
  phase: '(between)', numbers: [], requests: [], context: [], generation: []
}] END AS f
CALL (t, f) {
  MATCH (k:GpuEvent)
  WHERE k.trace = t.id AND (k.iteration IN f.numbers OR (f.phase = '(between)' AND k.iteration IS NULL))
  WITH k ORDER BY k.start_ns
  RETURN collect([k.start_ns, k.end_ns]) AS events
}
WITH f, events
WHERE f.phase <> '(between)' OR size(events) > 0
// The union of intervals in the order of their starts: [its length so far, the end that it reaches to].
WITH f, events, reduce(u = [0, 0], e IN events |
  CASE
    WHEN e[0] >= u[1] THEN [u[0] + e[1] - e[0], e[1]]
    WHEN e[1] > u[1] THEN [u[0] + e[1] - u[1], e[1]]
    ELSE u
  END)[0] AS busy
RETURN f.phase AS phase, size(f.numbers) AS iterations,
  CASE WHEN size(f.requests) > 0 THEN 1.0 * reduce(sum = 0, n IN f.requests | sum + n) / size(f.requests) END AS requests,
  CASE WHEN size(f.context) > 0 THEN reduce(sum = 0, n IN f.context | sum + n) END AS context_tokens,
  CASE WHEN size(f.generation) > 0 THEN reduce(sum = 0, n IN f.generation | sum + n) END AS generation_tokens,
  reduce(sum = 0, e IN events | sum + e[1] - e[0]) / 1e6 AS gpu_sum_ms, busy / 1e6 AS busy_ms
ORDER BY reduce(at = 0, n IN range(0, 6) |
  CASE WHEN ['prefill', 'mixed', 'decode', 'denoise', 'empty', 'unknown', '(between)'][n] = f.phase THEN n ELSE at END)
