// Short kernels: which kernels are so short that launching them costs more than their work.
//
// Kernels only, without copies and fills. By arguments, a trace without any op separates kernels by their names alone.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   threshold_us: kernels shorter than this are short, us
//   by_arguments: whether arguments of the parent separate rows
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   Parent cpu_op: op that the kernels are charged to, else the runtime call that launched them
//   Input dims: sizes of the parent's inputs, one list per argument, JSON
//   Input strides: strides of the parent's inputs, in elements, JSON
//   Concrete Inputs: values of the parent's inputs that are not tensors, JSON
//   Kernel name: name of the kernels
//   Short Kernel duration (µs) sum: sum of their durations, us
//   Short Kernel count: their number
//   Short Kernel duration (µs) mean: mean of their durations, us
//   Short Kernel duration (µs) percent of total time: share of the time from the first start to the last end of
//     all GPU events, %
//   ex_UID: uid of the first kernel
WITH {trace: null, threshold_us: 10, by_arguments: true, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  RETURN max(k.end_ns) - min(k.start_ns) AS span
}
WITH p, t, span, p.by_arguments AND EXISTS { MATCH (o:Op) WHERE o.trace = t.id } AS by_arguments
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  AND k:Kernel AND k.dur_ns / 1e3 < p.threshold_us
OPTIONAL MATCH (k)-[:CHARGED_TO]->(o:Op)
OPTIONAL MATCH (k)<-[:LAUNCHES]-(r:RuntimeCall)
OPTIONAL MATCH (o)-[:HAS_SIGNATURE]->(g:Signature) WHERE by_arguments
WITH p, span, k, g, CASE WHEN by_arguments OR NOT p.by_arguments
       THEN coalesce(o.name, r.name, '(no launch in trace)') END AS parent ORDER BY k.start_ns, k.uid
WITH p, span, parent, k.name AS name, replace(g.input_dims, ' ', '') AS dims,
     replace(g.input_strides, ' ', '') AS strides, replace(g.concrete_inputs, ' ', '') AS concrete,
     g.instruction AS instruction, head(collect(g)) AS args, head(collect(k.uid)) AS uid, count(*) AS events,
     sum(k.dur_ns) AS ns
RETURN parent AS `Parent cpu_op`, args.input_dims AS `Input dims`, args.input_strides AS `Input strides`,
       args.concrete_inputs AS `Concrete Inputs`, name AS `Kernel name`, ns / 1e3 AS `Short Kernel duration (µs) sum`,
       events AS `Short Kernel count`, ns / 1e3 / events AS `Short Kernel duration (µs) mean`,
       CASE WHEN span > 0 THEN 100.0 * ns / span END AS `Short Kernel duration (µs) percent of total time`,
       uid AS ex_UID
ORDER BY `Short Kernel duration (µs) sum` DESC, CASE WHEN p.by_arguments THEN uid END, `Parent cpu_op`, `Kernel name`
