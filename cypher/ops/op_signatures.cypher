// Signatures of an op: its cost, rates and share of the roofline for each set of arguments.
//
// Every GPU event counts for one op: the outermost whose performance model covers it, else the one that launched it.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   op: name of the op; * for all; null for the one with the most GPU time
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   op: name of the op
//   input_dims: sizes of the inputs, JSON
//   input_types: types of the inputs, JSON
//   input_strides: strides of the inputs, JSON
//   concrete_inputs: values of the inputs that are not tensors, JSON
//   calls: number of calls with GPU work
//   gpu_events: number of their GPU events
//   gpu_time_us: sum over calls of the time in which their GPU events run, us
//   min_us: least time of a call, us
//   median_us: median time of a call, us
//   max_us: greatest time of a call, us
//   percent: share of the GPU time of all rows, %
//   gflops: floating-point operations of a call, GFLOP
//   moved_mb: least traffic of a call to and from memory, MiB
//   flops_per_byte: operations per byte moved, FLOP/B
//   compute_spec: units that compute it, and in which precision
//   tflops_per_s: mean over calls of the operations per second of GPU time, TFLOP/s
//   tb_per_s: mean over calls of the bytes moved per second of GPU time, TB/s
//   roofline_us: least time of a call at the device's rates, us
//   bound: COMPUTE_BOUND or MEMORY_BOUND; LINK_BOUND of a copy between host and device
//   percent_of_roof: mean over calls of least time / GPU time, %
//   no_model: why no performance model applies, where there is one
//   uid: the first of the calls
WITH {trace: null, op: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
WITH p, t, head(COLLECT { MATCH (t)<-[:IN_TRACE]-(d:Device) RETURN d ORDER BY d.key }) AS d
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
MATCH (k)-[:MODELLED_BY]->(o:Op) WHERE p.op IS NULL OR p.op IN [o.name, '*']
WITH p, d, o, k ORDER BY k.start_ns
WITH p, d, o, collect([k.start_ns, k.end_ns]) AS spans, sum(k.dur_ns) AS ns
WITH p, d, o.name AS op, collect({o: o, spans: spans}) AS calls, sum(ns) AS ns ORDER BY ns DESC, op
WITH p, d, collect({op: op, calls: calls}) AS ops
UNWIND CASE p.op WHEN '*' THEN ops ELSE ops[..1] END AS one
UNWIND one.calls AS call
WITH d, one.op AS op, call.o AS o, size(call.spans) AS events,
     reduce(u = {ns: 0, reach: 0}, s IN call.spans | CASE WHEN s[1] <= u.reach THEN u ELSE
       {ns: u.ns + s[1] - CASE WHEN s[0] > u.reach THEN s[0] ELSE u.reach END, reach: s[1]} END).ns AS ns
MATCH (o)-[:HAS_SIGNATURE]->(s:Signature)
WITH d, op, s, o.flops AS flops, o.moved_bytes AS moved, o.link_bytes AS link, o.compute_spec AS spec, o.no_model AS no_model,
     count(*) AS calls, sum(events) AS events, sum(ns) AS ns, min(ns) AS low, percentileCont(ns, 0.5) AS middle,
     max(ns) AS high, avg(CASE WHEN ns > 0 THEN 1e9 / ns END) AS per_s,
     min(o.uid) AS uid
WITH *, flops / (d[spec + '_tflops'] * 1e6) AS compute_us, moved / (d.memory_bandwidth_gbps * 1e3) AS memory_us
WITH *, CASE WHEN link IS NOT NULL THEN link / (d.host_link_gbps * 1e3) WHEN flops <= 0 THEN null WHEN compute_us >= memory_us THEN compute_us
             WHEN compute_us < memory_us THEN memory_us END AS roof_us
WITH collect({op: op, s: s, calls: calls, events: events, ns: ns, low: low, middle: middle, high: high,
              flops: flops, moved: moved, spec: spec,
              per_s: per_s, roof_us: roof_us, bound: CASE WHEN link IS NOT NULL AND roof_us IS NOT NULL THEN 'LINK_BOUND' WHEN roof_us = compute_us THEN 'COMPUTE_BOUND'
              WHEN roof_us = memory_us THEN 'MEMORY_BOUND' END, no_model: no_model, uid: uid}) AS found,
     sum(ns) AS total
UNWIND found AS f
RETURN f.op AS op, f.s.input_dims AS input_dims, f.s.input_types AS input_types, f.s.input_strides AS input_strides,
       f.s.concrete_inputs AS concrete_inputs, f.calls AS calls, f.events AS gpu_events, f.ns / 1e3 AS gpu_time_us,
       f.low / 1e3 AS min_us, f.middle / 1e3 AS median_us, f.high / 1e3 AS max_us,
       CASE WHEN total > 0 THEN 100.0 * f.ns / total END AS percent,
       f.flops / 1e9 AS gflops, f.moved / 1048576 AS moved_mb,
       CASE WHEN f.moved > 0 THEN f.flops / f.moved END AS flops_per_byte, f.spec AS compute_spec,
       f.flops / 1e12 * f.per_s AS tflops_per_s, f.moved / 1e12 * f.per_s AS tb_per_s,
       f.roof_us AS roofline_us, f.bound AS bound, 100 * f.roof_us / 1e6 * f.per_s AS percent_of_roof,
       f.no_model AS no_model, f.uid AS uid
ORDER BY gpu_time_us DESC, uid
