// Modules: GPU time of every nn.Module by its place in the module tree, forward and backward, and of the optimizer.
//
// A GPU event belongs to the module nearest above its launch, as forward work; what a backward op launches, to the
// module around its forward op. What checkpointing runs again stands where its first run stood. Each event counts once.
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
WITH p, t ORDER BY t.pushed_ns DESC LIMIT 1
// Outermost recomputed module calls, each with the last call of the same module before it, whose place it takes.
CALL (t) {
  MATCH (m:Module) WHERE m.trace = t.id AND m.pre >= 0
  WITH m ORDER BY m.start_ns, m.pre
  WITH m.name AS name, collect(m) AS calls
  UNWIND [m IN calls WHERE m.recompute] AS m
  WITH m, [f IN calls WHERE f.recompute IS NULL AND f.start_ns < m.start_ns][-1] AS repeated
  WHERE NOT EXISTS { (m)<-[:CALLS*]-(a:Module) WHERE a.recompute }
  RETURN collect([m.pre, repeated]) AS repeats
}
// All module calls with those around them, and the GPU time that each is charged with.
CALL (p, t) {
  MATCH (a:Module) WHERE a.trace = t.id AND a.pre >= 0
  MATCH (m:Module) WHERE m.trace = t.id AND m.pre >= a.pre AND m.pre <= a.last
  WITH p, m, a ORDER BY a.pre
  RETURN m, collect(a) AS chain, '' AS line, CASE WHEN p.step IS NULL OR m.step = p.step THEN 1 ELSE 0 END AS calls,
         0 AS events, 0 AS forward, 0 AS backward, 0 AS optimizer
  UNION ALL
  CALL (t) {
    MATCH (m:Module) WHERE m.trace = t.id AND m.pre >= 0 AND m.gpu_events > 0
    RETURN m AS s, m, 1 AS ahead
    UNION ALL
    MATCH (s:Op) WHERE s.trace = t.id AND s.pre >= 0 AND s.gpu_events > 0
    MATCH (s)<-[:HAS_BACKWARD]-(f:Op) (()<-[:CALLS]-(:!Module))* ()<-[:CALLS]-(m:Module)
    WITH s, m ORDER BY f.start_ns, f.pre
    RETURN s, head(collect(m)) AS m, 0 AS ahead
  }
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND k.pre > s.pre AND k.pre <= s.last AND (p.step IS NULL OR k.step = p.step)
  WITH k, m, ahead ORDER BY s.pre DESC
  WITH k, head(collect([m, ahead])) AS charged
  WITH charged[0] AS m, charged[1] AS ahead, CASE WHEN (
        EXISTS { (k)-[:DURING]->+(o:Annotation) WHERE o.name STARTS WITH 'Optimizer.step#' }
        OR EXISTS { (k)<-[:LAUNCHES]-(:RuntimeCall)<-[:CALLS]-+(o:Op) WHERE o.name STARTS WITH 'Optimizer.step#' }
      ) THEN 1 ELSE 0 END AS steps, count(*) AS events, sum(k.dur_ns) AS time
  UNWIND [
    [m, '', events, time * ahead, time * (1 - ahead), 0],
    [null, ['Non-nn.Module GPU Ops', '(optimizer)'][steps], -events, -time * (1 - steps), 0, -time * steps]
  ] AS row
  RETURN row[0] AS m, null AS chain, row[1] AS line, 0 AS calls, row[2] AS events, row[3] AS forward, row[4] AS backward,
         row[5] AS optimizer
  UNION ALL
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND k.pre >= 0 AND (p.step IS NULL OR k.step = p.step)
  WITH CASE
      WHEN k.owner_rule = 'unlinked' THEN '(no launch in trace)'
      WHEN (
        EXISTS { (k)-[:DURING]->+(o:Annotation) WHERE o.name STARTS WITH 'Optimizer.step#' }
        OR EXISTS { (k)<-[:LAUNCHES]-(:RuntimeCall)<-[:CALLS]-+(o:Op) WHERE o.name STARTS WITH 'Optimizer.step#' }
      ) THEN '(optimizer)'
      ELSE 'Non-nn.Module GPU Ops'
    END AS line, count(*) AS events, sum(k.dur_ns) AS time
  RETURN null AS m, null AS chain, line, 0 AS calls, events, CASE line WHEN '(optimizer)' THEN 0 ELSE time END AS forward,
         0 AS backward, CASE line WHEN '(optimizer)' THEN time ELSE 0 END AS optimizer
}
WITH repeats, m, line, head(collect(chain)) AS chain, sum(calls) AS calls, sum(events) AS events,
     sum(forward) AS forward, sum(backward) AS backward, sum(optimizer) AS optimizer
WITH *, [a IN chain WHERE a.recompute][0].pre AS top
WITH *, [one IN repeats WHERE one[0] = top | one[1]][0] AS repeated
WITH *, CASE WHEN repeated IS NULL THEN chain
             ELSE COLLECT { MATCH (repeated)<-[:CALLS*0..]-(a:Module) RETURN a ORDER BY a.pre }
                  + [a IN chain WHERE a.pre > top] END AS modules
WITH *, CASE line WHEN '' THEN [a IN modules | CASE WHEN a.name STARTS WITH 'nn.Module: ' THEN substring(a.name, 11)
                                                    ELSE a.name END] ELSE [line] END AS names
ORDER BY calls DESC, m.start_ns, m.pre
// Each module's time counts for the modules around it, too.
UNWIND range(1, size(names)) AS depth
WITH line, names[..depth] AS names, sum(events) AS events, sum(forward) AS forward, sum(backward) AS backward,
     sum(optimizer) AS optimizer, sum(CASE depth WHEN size(names) THEN calls ELSE 0 END) AS calls,
     sum(CASE depth WHEN size(names) THEN forward + backward + optimizer ELSE 0 END) AS own,
     head(collect(CASE depth WHEN size(names) THEN m.uid END)) AS uid
WITH collect([line, names, events, forward, backward, calls, own, uid, optimizer]) AS rows, sum(own) AS whole
UNWIND rows AS row
WITH row, whole, row[1][-1] AS module, row[3] + row[4] + row[8] AS total,
     reduce(path = row[1][0], name IN row[1][1..] | path + '/' + name) AS path
WHERE row[2] > 0
RETURN CASE WHEN size(path) > 4096 THEN '...' + right(path, 4096) ELSE path END AS module_path,
       size(row[1]) AS depth, module,
       CASE WHEN row[0] = '' AND module =~ '(?s).*_[0-9]+'
         THEN left(module, size(module) - size(split(module, '_')[-1]) - 1) ELSE module END AS class,
       row[5] AS calls, row[3] / 1e3 AS forward_us, row[4] / 1e3 AS backward_us,
       row[8] / 1e3 AS optimizer_us, total / 1e3 AS total_us, row[6] / 1e3 AS own_us,
       CASE WHEN whole > 0 THEN 100.0 * total / whole ELSE 0.0 END AS percent, row[7] AS uid
ORDER BY total DESC, path
