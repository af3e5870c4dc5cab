// Signature history: how long the calls of an op with one set of arguments took, trace after trace.
//
// Traces are in the order of pushing; with a label those that have it, and where all of its values are numbers, or all
// versions or dates, in the order of these. Traces without events count, too.
//
// Parameters:
//   op: name of the op; null for the signature with the most GPU time over all
//   input_dims: sizes of its inputs as JSON, such as [[128,64],[64]]; null for those with the most GPU time over all
//   signature: key of the signature, as worst_of_roof has it; null for the one with the most GPU time that fits
//   label: key of a label, such as commit; null for the order of pushing
//   named: only traces of this name, such as rank0; null for all
//
// Columns:
//   label_value: value of the label asked for
//   run: name of the run
//   trace: name of the trace
//   op: name of the op
//   input_dims: sizes of the inputs, JSON
//   input_types: types of the inputs, JSON
//   input_strides: strides of the inputs, JSON
//   concrete_inputs: values of the inputs that are not tensors, JSON
//   signature: its key
//   calls: calls with GPU work
//   gpu_time_us: their GPU time, us
//   mean_us: the same of a call, us
//   min_us: least time of a call, us
//   median_us: median time of a call, us
//   max_us: greatest time of a call, us
//   percent_of_roof: least time at the device's rates as share of the GPU time, mean over calls, %
//   change_percent: change of mean_us against the trace before, %
WITH {op: null, input_dims: null, signature: null, label: null, named: null} AS p
CALL (p) {
  MATCH (t:Trace {state: 'complete'})
  WITH t['label_' + p.label] AS v WHERE v IS NOT NULL
  RETURN count(CASE WHEN v IS :: INTEGER | FLOAT THEN null ELSE 1 END) = 0 AS numbers,
         count(CASE WHEN toString(v) =~ 'v?[0-9]+([.-][0-9]+)*([+].*)?' THEN null ELSE 1 END) = 0 AS versions
}
MATCH (x:Signature)<-[s:SPENT]-(t:Trace {state: 'complete'})
WHERE (p.op IS NULL OR x.name = p.op) AND (p.named IS NULL OR t.name = p.named)
  AND (p.signature IS NULL OR x.key = p.signature) AND (p.label IS NULL OR t['label_' + p.label] IS NOT NULL)
  AND (p.input_dims IS NULL OR replace(coalesce(x.input_dims, ''), ' ', '') = replace(p.input_dims, ' ', ''))
WITH p, numbers, versions, x, collect({t: t, s: s, value: toString(t['label_' + p.label])}) AS rows, sum(s.ns) AS ns
ORDER BY ns DESC, x.key LIMIT 1
UNWIND rows AS r
WITH x, r,
     CASE WHEN numbers THEN [toFloat(r.value)]
          WHEN versions THEN [part IN split(replace(replace(split(r.value, '+')[0], '-', '.'), 'v', ''), '.') | toFloat(part)]
     END AS place
ORDER BY place, r.t.pushed_ns, r.t.id
WITH x, collect({r: r, mean: toFloat(r.s.ns) / r.s.n}) AS rows
UNWIND range(0, size(rows) - 1) AS i
WITH x, rows[i].r AS r, rows[i].mean AS mean, CASE WHEN i > 0 THEN rows[i - 1].mean END AS before
RETURN r.value AS label_value, r.t.run AS run, r.t.name AS trace, x.name AS op, x.input_dims AS input_dims,
       x.input_types AS input_types, x.input_strides AS input_strides, x.concrete_inputs AS concrete_inputs,
       x.key AS signature, r.s.n AS calls, r.s.ns / 1e3 AS gpu_time_us, mean / 1e3 AS mean_us, r.s.min_ns / 1e3 AS min_us,
       r.s.median_ns / 1e3 AS median_us, r.s.max_ns / 1e3 AS max_us, r.s.percent_of_roof AS percent_of_roof,
       CASE WHEN before > 0 THEN 100 * (mean - before) / before END AS change_percent
