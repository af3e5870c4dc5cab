// Odd layers: which of several layers that should be alike is not, and where it departs from the others.
//
// Layers are modules that differ by nothing but the number of the instance and stand in one call of a module, or in
// none. They are compared with what more than half of them do: calls with GPU work, arguments and kernels. Layers that
// are odd in the same way are one row.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   min_layers: least number of layers
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
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (o:OddLayer {trace: t.id, kernels: p.kernels}) WHERE o.layers >= p.min_layers
WITH t, o.oddity AS oddity, sum(o.times) AS times, min(o.number) AS first
MATCH (m:Module)<-[:OF_LAYER]-(o:OddLayer {trace: t.id, number: first})-[:UNLIKE]->(usual:Module)
RETURN m.name AS module, o.inside AS inside, times, o.layers AS layers, o.alike AS alike, o.differs AS differs,
       head([(o)-[:DEPARTS_AT]->(x) | x.name]) AS departs_at, head([(o)-[:INSTEAD_OF]->(x) | x.name]) AS instead_of,
       o.way AS way, m.gpu_sum_ns / 1e3 AS gpu_time_us, o.usual_gpu_ns / 1e3 AS usual_gpu_time_us, m.uid AS uid,
       head([(o)-[:DEPARTS_AT]->(x) | x.uid]) AS departs_uid, usual.uid AS usual_uid
ORDER BY times, m.pre
