// Odd layers: which of several layers that should be alike is not, and where it departs from the others.
//
// Layers are modules that differ by nothing but the number of the instance and stand in one call of a module, or in
// none. They are compared with what more than half of them do: calls with GPU work, arguments and kernels. Layers that
// are odd in the same way are one row.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   min_layers: how many there must be
//   kernels: whether the names of kernels count
//
// Columns:
//   module: the odd layer, the first one of its kind
//   inside: the module around the layers
//   times: number of layers that are odd in this way
//   layers: number of layers around this one, itself included
//   alike: how many of them are as most are
//   differs: what departs first: call, arguments or kernel
//   departs_at: first call or kernel that differs; absent where the layer ends before the others
//   instead_of: what the others have in its place; absent where they end before
//   way: names of the calls from the layer to where it departs
//   gpu_time_us: sum of the durations of the GPU events of the layer, us
//   usual_gpu_time_us: mean of those that are as most are, us
//   uid: the odd layer
//   departs_uid: what departs_at names
//   usual_uid: the first of those that are as most are
WITH {trace: null, min_layers: 3, kernels: true} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC LIMIT 1
MATCH (m:Module) WHERE m.trace = t.id AND m.pre >= 0
MATCH (m)-[:INSTANCE_OF]->(c:SubtreeClass)
WITH p, m, c.name AS name, CASE WHEN p.kernels THEN m.class_with_kernels ELSE c.key END AS class, head(COLLECT {
  MATCH (m)<-[:CALLS*]-(a:Module) RETURN a ORDER BY a.depth DESC LIMIT 1
}) AS around ORDER BY m.pre
WITH p, around, name, class, collect(m) AS same
WITH p, around, name, class, same ORDER BY size(same) DESC, same[0].pre
WITH p, around, name, collect({class: class, same: same}) AS groups, sum(size(same)) AS layers
WHERE size(groups) > 1 AND layers >= p.min_layers AND 2 * size(groups[0].same) > layers
UNWIND groups[1..] AS odd
WITH p, around, layers, groups[0] AS usual, odd ORDER BY odd.same[0].pre
WITH p, odd.class AS class, usual.class AS usual_class, sum(size(odd.same)) AS times,
     head(collect({o: odd.same[0], usual: usual.same, around: around, layers: layers})) AS f
UNWIND [f.o, f.usual[0]] AS one
CALL (p, one) {
  MATCH (x:Event) WHERE x.trace = one.trace AND x.pre > one.pre AND x.pre <= one.last AND x.gpu_events > 0
  OPTIONAL MATCH (x)-[:INSTANCE_OF]->(c:SubtreeClass)
  OPTIONAL MATCH (x)-[:HAS_SIGNATURE]->(s:Signature)
  WITH x, [x.depth - one.depth, coalesce(c.root, [l IN labels(x) WHERE l IN ['Kernel', 'Memcpy', 'Memset']][0]),
           coalesce(c.name, CASE WHEN p.kernels THEN x.name END, '')] AS call,
       [coalesce(s.input_dims, ''), coalesce(s.input_types, ''), coalesce(s.input_strides, ''),
        coalesce(s.concrete_inputs, '')] AS arguments ORDER BY x.pre
  RETURN collect({x: x, call: call, arguments: arguments, is: [call, arguments]}) AS below
}
WITH f, class, usual_class, times, collect(below) AS both
WITH *, f.o AS o, f.usual AS usual, both[0] AS mine, both[1] AS theirs
WITH *, head([i IN range(0, CASE WHEN size(mine) > size(theirs) THEN size(mine) ELSE size(theirs) END - 1)
              WHERE coalesce(mine[i].is <> theirs[i].is, true)]) AS at
WITH *, mine[at] AS d, theirs[at] AS e
RETURN o.name AS module, f.around.name AS inside, times, f.layers AS layers, size(usual) AS alike,
       CASE WHEN d.call = e.call THEN 'arguments' WHEN d.x:GpuEvent AND e.x:GpuEvent AND d.call[0] = e.call[0]
            THEN 'kernel' ELSE 'call' END AS differs,
       d.x.name AS departs_at, e.x.name AS instead_of,
       reduce(path = CASE WHEN d IS NULL THEN usual[0].name ELSE o.name END,
         y IN [y IN CASE WHEN d IS NULL THEN theirs ELSE mine END
               WHERE y.x.pre <= coalesce(d, e).x.pre AND y.x.last >= coalesce(d, e).x.pre] | path + ' > ' + y.x.name) AS way,
       o.gpu_sum_ns / 1e3 AS gpu_time_us,
       reduce(ns = 0, m IN usual | ns + m.gpu_sum_ns) / 1e3 / size(usual) AS usual_gpu_time_us,
       o.uid AS uid, d.x.uid AS departs_uid, usual[0].uid AS usual_uid
ORDER BY times, o.pre
