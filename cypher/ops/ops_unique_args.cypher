// GPU time by operation and arguments: which calls the GPU time is charged to.
//
// Time is charged to the op nearest above a launch, to the runtime call where no op is, and to nobody where the
// launch is not in the trace. A call's time is the length of the union of its GPU events.
// Names of process and thread are Unknown where the trace does not give them.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   name: op nearest above the launch; the runtime call where no op is
//   op category: kind of operation: that of the kernels with most of its time
//   process_name: name of the process
//   process_label: label of the process
//   thread_name: name of the thread
//   Input Dims: sizes of the inputs, one list per argument, JSON
//   Input type: types of the inputs, JSON
//   Input Strides: strides of the inputs, in elements, JSON
//   Concrete Inputs: values of inputs that are not tensors, JSON
//   operation_count: calls
//   total_direct_kernel_time_mean: mean of the busy time of the GPU events charged to a call, us
//   total_direct_kernel_time_median: median of the busy time of the GPU events charged to a call, us
//   total_direct_kernel_time_std: standard deviation of the busy time of the GPU events charged to a call, us;
//     absent for a single call
//   total_direct_kernel_time_min: smallest of the busy time of the GPU events charged to a call, us
//   total_direct_kernel_time_max: greatest of the busy time of the GPU events charged to a call, us
//   total_direct_kernel_time_sum: sum of the busy time of the GPU events charged to a call, us
//   total_subtree_kernel_time_mean: mean of the busy time of all GPU events below a call, us
//   total_subtree_kernel_time_median: median of the busy time of all GPU events below a call, us
//   total_subtree_kernel_time_std: standard deviation of the busy time of all GPU events below a call, us; absent
//     for a single call
//   total_subtree_kernel_time_min: smallest of the busy time of all GPU events below a call, us
//   total_subtree_kernel_time_max: greatest of the busy time of all GPU events below a call, us
//   total_subtree_kernel_time_sum: sum of the busy time of all GPU events below a call, us
//   ex_UID: uid of the first call
//   Percentage (%): share of total_direct_kernel_time_sum in the sum over all rows, %
//   Cumulative Percentage (%): share of this row and those above it, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall) WHERE o IS NULL
WITH p, t, coalesce(o, r, k) AS call, k ORDER BY k.start_ns
WITH p, t, call, collect([k.start_ns, k.end_ns]) AS events
WITH p, t, call, reduce(s = {busy: 0, end: 0}, e IN events | CASE WHEN e[1] <= s.end THEN s ELSE
       {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy AS busy,
     size(events) AS charged
WITH call, busy, CASE
       WHEN call:GpuEvent OR call.gpu_events = charged THEN busy
       WHEN p.step IS NULL THEN call.gpu_busy_ns
       ELSE reduce(s = {busy: 0, end: 0}, e IN COLLECT {
         MATCH (b:GpuEvent) WHERE b.trace = t.id AND b.pre > call.pre AND b.pre <= call.last AND b.step = p.step
         WITH b ORDER BY b.start_ns
         RETURN [b.start_ns, b.end_ns]
       } | CASE WHEN e[1] <= s.end THEN s ELSE
         {busy: s.busy + e[1] - CASE WHEN e[0] > s.end THEN e[0] ELSE s.end END, end: e[1]} END).busy
     END AS subtree
OPTIONAL MATCH (call)-[:HAS_SIGNATURE]->(g:Signature)
OPTIONAL MATCH (h:Thread {trace: call.trace, number: call.thread})-[:IN_PROCESS]->(c:Process) WHERE NOT call:GpuEvent
WITH *, CASE WHEN call:GpuEvent THEN ['(no launch in trace)', 'unlinked'] ELSE [call.name, call.category] END AS op,
     CASE WHEN NOT call:GpuEvent THEN [
       CASE WHEN c.name <> c.pid THEN c.name ELSE 'Unknown' END,
       coalesce(c.labels, CASE WHEN EXISTS {(c)-[:IN_TRACE]->(:Trace)-[:RAN]->(:Program)} THEN '' ELSE 'Unknown' END),
       CASE WHEN h.name <> h.tid THEN h.name ELSE 'Unknown' END
     ] END AS place
ORDER BY call.start_ns, call.pre
WITH op, place, replace(g.input_dims, ' ', '') AS dims, replace(g.input_types, ' ', '') AS types,
     replace(g.input_strides, ' ', '') AS strides, replace(g.concrete_inputs, ' ', '') AS concrete,
     g.instruction AS instruction,
     head(collect(call)) AS first, head(collect(g)) AS args, count(*) AS calls,
     {each: collect(busy), sum: sum(busy), middle: sum(busy) / count(*), median: percentileCont(busy, 0.5),
      min: min(busy), max: max(busy)} AS direct,
     {each: collect(subtree), sum: sum(subtree), middle: sum(subtree) / count(*), median: percentileCont(subtree, 0.5),
      min: min(subtree), max: max(subtree)} AS below
WITH *, reduce(s = 0.0, ns IN direct.each | s + (ns - direct.middle) ^ 2)
          - (direct.sum - calls * direct.middle) ^ 2 / calls AS direct_squares,
     reduce(s = 0.0, ns IN below.each | s + (ns - below.middle) ^ 2)
       - (below.sum - calls * below.middle) ^ 2 / calls AS below_squares
ORDER BY op[1] = 'unlinked', direct.sum DESC, first.uid
WITH collect({op: op, place: place, first: first, args: args, calls: calls, direct: direct, below: below,
              direct_std: CASE WHEN calls > 1 THEN sqrt(direct_squares / (calls - 1)) END,
              below_std: CASE WHEN calls > 1 THEN sqrt(below_squares / (calls - 1)) END}) AS rows,
     sum(direct.sum) AS whole
UNWIND range(0, size(rows) - 1) AS at
WITH rows[at] AS row, whole, reduce(s = 0, above IN rows[..at + 1] | s + above.direct.sum) AS running, at
RETURN row.op[0] AS name, row.op[1] AS `op category`, row.place[0] AS process_name, row.place[1] AS process_label,
       row.place[2] AS thread_name, row.args.input_dims AS `Input Dims`, row.args.input_types AS `Input type`,
       row.args.input_strides AS `Input Strides`, row.args.concrete_inputs AS `Concrete Inputs`,
       row.calls AS operation_count,
       row.direct.sum / 1e3 / row.calls AS total_direct_kernel_time_mean,
       row.direct.median / 1e3 AS total_direct_kernel_time_median, row.direct_std / 1e3 AS total_direct_kernel_time_std,
       row.direct.min / 1e3 AS total_direct_kernel_time_min, row.direct.max / 1e3 AS total_direct_kernel_time_max,
       row.direct.sum / 1e3 AS total_direct_kernel_time_sum,
       row.below.sum / 1e3 / row.calls AS total_subtree_kernel_time_mean,
       row.below.median / 1e3 AS total_subtree_kernel_time_median, row.below_std / 1e3 AS total_subtree_kernel_time_std,
       row.below.min / 1e3 AS total_subtree_kernel_time_min, row.below.max / 1e3 AS total_subtree_kernel_time_max,
       row.below.sum / 1e3 AS total_subtree_kernel_time_sum,
       CASE WHEN NOT row.first:GpuEvent THEN row.first.uid END AS ex_UID,
       CASE WHEN whole > 0 THEN 100.0 * row.direct.sum / whole END AS `Percentage (%)`,
       CASE WHEN whole > 0 THEN 100.0 * running / whole END AS `Cumulative Percentage (%)`
ORDER BY at
