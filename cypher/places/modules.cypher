// Modules: GPU time of every nn.Module by its place in the module tree, forward and backward, and of the optimizer.
//
// A GPU event belongs to the module nearest above its launch, as forward work. What a backward op launches belongs to
// the module around its forward op. Recomputed work stands where its first run stood. Each event counts once.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   module_path: names of the modules from the top, joined by /; only its end where it is very long
//   depth: 1 for modules in no other
//   module: name of the module; a line without uid is none
//   class: the name without the number of the instance
//   calls: calls, recomputation included
//   forward_us: GPU time launched by the module, modules inside included; all that is not backward, us
//   backward_us: GPU time of the backward ops of forward ops in the module, modules inside included, us
//   optimizer_us: GPU time launched by `Optimizer.step` outside of modules, us
//   total_us: forward, backward and optimizer, us
//   own_us: the part of it that is in no module inside; adds up over all rows, us
//   percent: total_us as share of the sum over all GPU events, %
//   uid: the first call
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
WITH *, head(COLLECT {
  MATCH (k:GpuEvent {trace: t.id}) WHERE p.step IS NULL OR k.step = p.step RETURN sum(k.dur_ns)
}) AS whole
// From a GPU event to the call whose work it is, and up the module tree; PART_OF leads work of no module to what it is.
MATCH (k:GpuEvent {trace: t.id})-[of:IN_MODULE|PART_OF]->()-[up:PART_OF*0..]->(place:ModulePath)
WHERE p.step IS NULL OR k.step = p.step
WITH p, whole, place, sum(k.dur_ns) AS total, sum(CASE WHEN size(up) < 2 THEN k.dur_ns ELSE 0 END) AS own,
     sum(CASE of.pass WHEN 'backward' THEN k.dur_ns ELSE 0 END) AS backward,
     sum(CASE of.pass WHEN 'optimizer' THEN k.dur_ns ELSE 0 END) AS optimizer
RETURN place.path AS module_path, place.depth AS depth, place.name AS module, place.class AS class,
       COUNT { (place)<-[:PART_OF]-(m:Module) WHERE p.step IS NULL OR m.step = p.step } AS calls,
       (total - backward - optimizer) / 1e3 AS forward_us, backward / 1e3 AS backward_us,
       optimizer / 1e3 AS optimizer_us, total / 1e3 AS total_us, own / 1e3 AS own_us,
       CASE WHEN whole > 0 THEN 100.0 * total / whole ELSE 0.0 END AS percent,
       head(COLLECT {
         MATCH (place)<-[:PART_OF]-(m:Module)
         RETURN m.uid ORDER BY p.step IS NULL OR coalesce(m.step = p.step, false) DESC, m.start_ns, m.pre LIMIT 1
       }) AS uid
ORDER BY place.number
