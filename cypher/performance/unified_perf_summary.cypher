// Cost and rates: what calls should cost and what they reached, every GPU event in one row.
//
// A GPU event is given to the outermost op that a performance model covers, else to the op that launched it. Launches
// outside of these stand for themselves, one kernel a call. Communication in no modelled op, and GPU events without a
// launch in the trace, are a row each. Absent figures are not known.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   name: outermost op that a model covers, else the op that launched
//   op category: kind of operation: that of the kernels with most of its time
//   process_name: name of the process, Unknown where the trace does not give it
//   process_label: label of the process
//   thread_name: name of the thread
//   Input Dims: sizes of the inputs, one list per argument, JSON
//   Input type: types of the inputs, JSON
//   Input Strides: strides of the inputs, in elements, JSON
//   Concrete Inputs: values of inputs that are not tensors, JSON
//   ex_UID: uid of the first call, or of the event that stands for itself
//   operation_count: calls
//   total_duration_us: sum of the durations of the calls on the host, us
//   mean_duration_us: mean of the durations of the calls on the host, us
//   std_duration_us: standard deviation of the same, us; absent for a single call
//   duration_us_median: median of the same, us
//   duration_us_min: smallest one, us
//   duration_us_max: greatest one, us
//   GFLOPS: floating-point operations of a call; a multiply-add counts as two, 10^9
//   Data Moved (MB): least traffic of a call to and from memory: each tensor once, MiB
//   FLOPS/Byte: operations per byte moved
//   Compute Spec: units that compute it, and in which precision
//   TB/s_mean: mean of the bytes moved per second of GPU busy time, TB/s
//   TB/s_median: median of the bytes per second, TB/s
//   TB/s_min: smallest one, TB/s
//   TB/s_max: greatest one, TB/s
//   TFLOPS/s_mean: mean of the operations per second of GPU busy time, TFLOP/s
//   TFLOPS/s_median: median of the operations per second, TFLOP/s
//   TFLOPS/s_min: smallest one, TFLOP/s
//   TFLOPS/s_max: greatest one, TFLOP/s
//   Kernel Time (µs)_mean: mean of the GPU busy time per call, us
//   Kernel Time (µs)_median: median of the GPU busy time per call, us
//   Kernel Time (µs)_std: standard deviation of the GPU busy time per call, us; absent for a single call
//   Kernel Time (µs)_min: smallest GPU busy time per call, us
//   Kernel Time (µs)_max: greatest GPU busy time per call, us
//   Kernel Time (µs)_sum: sum of the GPU busy time per call, us
//   has_perf_model: whether a model applies
//   Percentage (%): share of Kernel Time (µs)_sum in the sum over all rows, %
//   Cumulative Percentage (%): share of this row and those above it, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
OPTIONAL MATCH (k)-[:MODELLED_BY]->(m:Op)
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op) WHERE m IS NULL
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall) WHERE m IS NULL
WITH k, m, CASE WHEN m IS NULL THEN k END AS alone,
     CASE WHEN k.gpu_class <> 'communication' THEN coalesce(o, r) END AS launcher,
     CASE WHEN m IS NOT NULL THEN '' WHEN r IS NULL THEN '(no launch in trace)'
          WHEN k.gpu_class = 'communication' THEN '(communication)' ELSE '' END AS line
ORDER BY k.start_ns
WITH coalesce(m, launcher) AS op, alone, line, collect([k.start_ns, k.end_ns]) AS events
WITH op, alone, line, reduce(s = {busy: 0, end: 0}, e IN events | CASE WHEN e[1] <= s.end THEN s ELSE
       {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy AS busy
OPTIONAL MATCH (op)-[:HAS_SIGNATURE]->(g:Signature)
OPTIONAL MATCH (h:Thread {trace: op.trace, number: op.thread})-[:IN_PROCESS]->(c:Process)
WITH op, alone, line, busy, g, CASE WHEN alone IS NULL THEN op ELSE {} END AS cost,
     CASE WHEN op IS NOT NULL THEN [
       CASE WHEN c.name <> c.pid THEN c.name ELSE 'Unknown' END,
       coalesce(c.labels, CASE WHEN EXISTS {(c)-[:IN_TRACE]->(:Trace)-[:RAN]->(:Program)} THEN '' ELSE 'Unknown' END),
       CASE WHEN h.name <> h.tid THEN h.name ELSE 'Unknown' END
     ] END AS place
WITH *, CASE WHEN busy > 0 THEN cost.flops / busy END AS flop_rate,
     CASE WHEN busy > 0 THEN cost.moved_bytes / busy END AS byte_rate
ORDER BY op.start_ns, op.pre, alone.pre
WITH place, op.name AS op_name, CASE line WHEN '' THEN alone.name ELSE line END AS kernel,
     CASE line WHEN '' THEN coalesce(alone.op_category, op.category) END AS category,
     replace(g.input_dims, ' ', '') AS dims, replace(g.input_types, ' ', '') AS types,
     replace(g.input_strides, ' ', '') AS strides, replace(g.concrete_inputs, ' ', '') AS concrete,
     g.instruction AS instruction,
     head(collect({line: line, uid: CASE line WHEN '' THEN coalesce(alone.uid, op.uid) END, flops: cost.flops,
                   moved: cost.moved_bytes, spec: cost.compute_spec, args: g})) AS first,
     count(*) AS calls, sum(busy) AS time,
     {mean: avg(op.dur_ns), sum: CASE WHEN count(op) > 0 THEN sum(op.dur_ns) END, std: stDev(op.dur_ns),
      median: percentileCont(op.dur_ns, 0.5), min: min(op.dur_ns), max: max(op.dur_ns)} AS host,
     {each: collect(busy), middle: sum(busy) / count(*), median: percentileCont(busy, 0.5), min: min(busy),
      max: max(busy)} AS times,
     CASE count(flop_rate) WHEN count(*) THEN
       {mean: avg(flop_rate), median: percentileCont(flop_rate, 0.5), min: min(flop_rate),
        max: max(flop_rate)} ELSE {} END AS flop_rate,
     CASE count(byte_rate) WHEN count(*) THEN
       {mean: avg(byte_rate), median: percentileCont(byte_rate, 0.5), min: min(byte_rate),
        max: max(byte_rate)} ELSE {} END AS byte_rate
WITH *, reduce(s = 0.0, ns IN times.each | s + (ns - times.middle) ^ 2)
          - (time - calls * times.middle) ^ 2 / calls AS squares
ORDER BY first.line <> '', first.line, time DESC, first.uid
WITH collect({name: CASE WHEN kernel IS NULL THEN op_name WHEN first.line <> '' THEN kernel
                         ELSE op_name + '->' + kernel + ' (Synthetic Op)' END,
              category: category, place: place, first: first, calls: calls, time: time, host: host, times: times,
              std: CASE WHEN calls > 1 THEN sqrt(squares / (calls - 1)) END,
              flop_rate: flop_rate, byte_rate: byte_rate}) AS rows, sum(time) AS whole
UNWIND range(0, size(rows) - 1) AS at
WITH rows[at] AS row, rows[at].first AS first, whole, reduce(s = 0, above IN rows[..at + 1] | s + above.time) AS running
RETURN row.name AS name, row.category AS `op category`, row.place[0] AS process_name, row.place[1] AS process_label,
       row.place[2] AS thread_name, first.args.input_dims AS `Input Dims`, first.args.input_types AS `Input type`,
       first.args.input_strides AS `Input Strides`, first.args.concrete_inputs AS `Concrete Inputs`,
       first.uid AS ex_UID, row.calls AS operation_count, row.host.sum / 1e3 AS total_duration_us,
       row.host.mean / 1e3 AS mean_duration_us, CASE WHEN row.calls > 1 THEN row.host.std / 1e3 END AS std_duration_us,
       row.host.median / 1e3 AS duration_us_median, row.host.min / 1e3 AS duration_us_min,
       row.host.max / 1e3 AS duration_us_max,
       first.flops / 1e9 AS GFLOPS, first.moved / 2.0 ^ 20 AS `Data Moved (MB)`,
       CASE WHEN first.moved > 0 THEN first.flops / first.moved END AS `FLOPS/Byte`,
       CASE first.line WHEN '' THEN coalesce(first.spec, '') END AS `Compute Spec`,
       row.byte_rate.mean / 1e3 AS `TB/s_mean`,
       row.byte_rate.median / 1e3 AS `TB/s_median`, row.byte_rate.min / 1e3 AS `TB/s_min`,
       row.byte_rate.max / 1e3 AS `TB/s_max`, row.flop_rate.mean / 1e3 AS `TFLOPS/s_mean`,
       row.flop_rate.median / 1e3 AS `TFLOPS/s_median`, row.flop_rate.min / 1e3 AS `TFLOPS/s_min`,
       row.flop_rate.max / 1e3 AS `TFLOPS/s_max`,
       row.time / 1e3 / row.calls AS `Kernel Time (µs)_mean`, row.times.median / 1e3 AS `Kernel Time (µs)_median`,
       row.std / 1e3 AS `Kernel Time (µs)_std`, row.times.min / 1e3 AS `Kernel Time (µs)_min`,
       row.times.max / 1e3 AS `Kernel Time (µs)_max`, row.time / 1e3 AS `Kernel Time (µs)_sum`,
       first.flops IS NOT NULL AS has_perf_model,
       CASE WHEN whole > 0 THEN 100.0 * row.time / whole END AS `Percentage (%)`,
       CASE WHEN whole > 0 THEN 100.0 * running / whole END AS `Cumulative Percentage (%)`
