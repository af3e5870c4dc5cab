// Worst of roof: the signatures that could win most time over many traces, if they ran at the device's rates.
//
// Signatures with a model, on a device with known rates. Traces without events count, too.
//
// Parameters:
//   run: only traces of this run; null for all
//   named: only traces of this name, such as rank0; null for all
//   top: how many are shown; 0 for all
//
// Columns:
//   op: name of the op
//   input_dims: sizes of the inputs, JSON
//   input_types: types of the inputs, JSON
//   input_strides: strides of the inputs, JSON
//   concrete_inputs: values of the inputs that are not tensors, JSON
//   signature: its key, by which signature_history is asked for it
//   traces: number of traces with it
//   calls: calls in all of them
//   gpu_time_ms: GPU time of these calls, ms
//   percent_of_roof: least time at the devices' rates as share of the GPU time, mean weighted by GPU time, %
//   could_be_won_ms: GPU time beyond that least time, ms
//   worst_run: run of the trace with the least percent_of_roof; of equal ones the first pushed
//   worst_trace: name of that trace
WITH {run: null, named: null, top: 20} AS p
MATCH (x:Signature)<-[s:SPENT]-(t:Trace {state: 'complete'})
WHERE s.percent_of_roof IS NOT NULL AND (p.run IS NULL OR t.run = p.run) AND (p.named IS NULL OR t.name = p.named)
WITH p, x, t, s ORDER BY s.percent_of_roof, t.pushed_ns, t.id
WITH p, x, count(*) AS traces, sum(s.n) AS calls, sum(s.ns) AS ns, sum(s.ns * s.percent_of_roof) AS weighted,
     collect(t)[0] AS worst
WITH p, x, traces, calls, ns, weighted, worst, (100.0 * ns - weighted) / 100.0 AS won ORDER BY won DESC, x.key
WITH p, collect({x: x, traces: traces, calls: calls, ns: ns, weighted: weighted, won: won, worst: worst}) AS found
UNWIND found[..CASE p.top WHEN 0 THEN size(found) ELSE p.top END] AS f
RETURN f.x.name AS op, f.x.input_dims AS input_dims, f.x.input_types AS input_types,
       f.x.input_strides AS input_strides, f.x.concrete_inputs AS concrete_inputs, f.x.key AS signature, f.traces AS traces, f.calls AS calls, f.ns / 1e6 AS gpu_time_ms,
       CASE WHEN f.ns > 0 THEN f.weighted / f.ns END AS percent_of_roof, f.won / 1e6 AS could_be_won_ms,
       f.worst.run AS worst_run, f.worst.name AS worst_trace
