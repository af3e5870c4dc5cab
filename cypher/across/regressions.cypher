// Regressions: since which build kernels, ops or modules take longer, beyond the noise of the builds before.
//
// A build is a value of a label, or else a run; traces of one build count together. Builds are in the order of pushing;
// those of a label whose values are all numbers, or all versions or dates, in the order of these. The mean time of each
// kernel, signature or place of a module is followed over the builds. It takes longer since the build that best
// separates a faster from a slower side, with at least two builds before it. The means of the logarithms of both sides
// have to be five standard errors apart, by their scatter around both, with four builds more of 2 % counted in. Traces
// without events count, too.
//
// Parameters:
//   of: kernel, signature or module
//   label: key of a label, such as commit; null for runs in the order of pushing
//   named: only traces of this name, such as rank0; null for all
//   min_percent: smaller increases are left out, %
//   top: how many are shown; 0 for all
//
// Columns:
//   since: value of the label, or name of the run, from which on it takes longer
//   name: whole name of the kernel, name of the op, or path of the module
//   input_dims: of a signature, sizes of the inputs, JSON
//   factor: time since then as multiple of that before
//   before_us: time of one before, geometric mean over the builds, us
//   since_us: the same since then, us
//   noise_percent: standard deviation of the builds before around their mean, %
//   cost_ms: what it adds to a trace since then, ms
//   percent: the same as share of the GPU time of these traces, %
//   builds_before: builds before, in which it ran
//   builds_since: builds since then, in which it ran
//   kernels: of a signature or module, kernels that ran for it, most time first; of the last of its traces
//   signatures: of a kernel, ops and sizes of inputs that it ran for, most time first; of the last of its traces
//   modules: of a kernel, places of modules that it ran for, most own time first; of the last of its traces
WITH {of: 'kernel', label: null, named: null, min_percent: 5, top: 20} AS p
CALL (p) {
  MATCH (t:Trace {state: 'complete'})
  WITH t['label_' + p.label] AS v WHERE v IS NOT NULL
  RETURN count(CASE WHEN v IS :: INTEGER | FLOAT THEN null ELSE 1 END) = 0 AS numbers,
         count(CASE WHEN toString(v) =~ 'v?[0-9]+([.-][0-9]+)*([+].*)?' THEN null ELSE 1 END) = 0 AS versions
}
CALL (p) {
  WITH p WHERE p.of = 'kernel'
  MATCH (x:KernelName)<-[s:SPENT]-(t:Trace {state: 'complete'}) WHERE p.named IS NULL OR t.name = p.named
  RETURN t, collect([x, s.ns, s.n]) AS spent
  UNION ALL
  WITH p WHERE p.of = 'signature'
  MATCH (x:Signature)<-[s:SPENT]-(t:Trace {state: 'complete'}) WHERE p.named IS NULL OR t.name = p.named
  RETURN t, collect([x, s.ns, s.n]) AS spent
  UNION ALL
  WITH p WHERE p.of = 'module'
  MATCH (x:ModulePlace)<-[s:SPENT]-(t:Trace {state: 'complete'}) WHERE p.named IS NULL OR t.name = p.named
  RETURN t, collect([x, s.ns, s.n]) AS spent
}
WITH *, CASE WHEN p.label IS NULL THEN t.run ELSE toString(t['label_' + p.label]) END AS build
WHERE build IS NOT NULL
WITH * ORDER BY t.pushed_ns, t.id
WITH p, numbers, versions, build, min(t.pushed_ns) AS pushed, collect(t) AS traces, collect(spent) AS spent,
     sum(t.gpu_sum_ns) AS gpu_ns
ORDER BY CASE WHEN p.label IS NULL THEN []
              WHEN numbers THEN [toFloat(build)]
              WHEN versions THEN [part IN split(replace(replace(split(build, '+')[0], '-', '.'), 'v', ''), '.') | toFloat(part)]
         END, pushed, build
WITH p, collect({build: build, traces: traces, gpu_ns: gpu_ns}) AS builds, collect(spent) AS spent
CALL (spent) {
  UNWIND range(0, size(spent) - 1) AS at
  UNWIND spent[at] AS of_trace
  UNWIND of_trace AS one
  RETURN one[0] AS x, collect([at, one[1], one[2]]) AS points
}
WITH p, builds, x, points
CALL (points) {
  UNWIND points AS one
  WITH one[0] AS at, sum(one[1]) AS ns, sum(one[2]) AS n
  WHERE ns > 0 AND n > 0
  WITH at, ns, log(toFloat(ns) / n) AS value ORDER BY at
  RETURN collect(at) AS at, collect(ns) AS ns, collect(value) AS values
}
WITH p, builds, x, at, ns, values, size(at) AS m, reduce(s = 0.0, v IN values | s + v) AS total,
     reduce(s = 0.0, v IN values | s + v * v) AS squares
WHERE m > 2
WITH *, reduce(b = [0, 0.0, 0.0, 0], v IN values |
  [c IN [[b[0] + 1, b[1] + v]] | [rise IN [total * c[0] / m - c[1]] |
   [gain IN [CASE WHEN c[0] > 1 AND c[0] < m AND rise > 0 THEN rise * rise * m / (c[0] * (m - c[0])) ELSE 0.0 END] |
    CASE WHEN gain > b[2] THEN [c[0], c[1], gain, c[0]] ELSE [c[0], c[1], b[2], b[3]] END][0]][0]][0]) AS best
WITH *, best[2] AS gain, best[3] AS k
WHERE k > 0
WITH *, toFloat(m) / (k * (m - k)) AS share
WITH *, sqrt(gain * share) AS rise,
     sqrt((abs(squares - total * total / m - gain) + 4 * 0.02 ^ 2) / (m + 2) * share) AS error
WHERE rise > 5 * error AND rise >= log(1 + p.min_percent / 100.0)
WITH *, reduce(s = 0.0, v IN values[..k] | s + v) / k AS before,
     reduce(s = 0, one IN ns[k..] | s + one) AS ns_since,
     reduce(s = 0, one IN at[k..] | s + size(builds[one].traces)) AS traces_since,
     reduce(s = 0, one IN at[k..] | s + builds[one].gpu_ns) AS gpu_since
WITH *, (1 - exp(-rise)) * ns_since AS cost,
     sqrt(reduce(s = 0.0, v IN values[..k] | s + (v - before) ^ 2) / (k - 1)) AS noise
ORDER BY cost / traces_since DESC, x.key
WITH p, collect({x: x, since: builds[at[k]].build, last: builds[at[-1]].traces[-1], rise: rise, before: before,
                 noise: noise, cost: cost, traces: traces_since, gpu: gpu_since, k: k, m: m}) AS found
UNWIND found[..CASE p.top WHEN 0 THEN size(found) ELSE p.top END] AS f
WITH f, f.x AS x, f.last AS t
RETURN f.since AS since, coalesce(x.path, x.name) AS name, x.input_dims AS input_dims, exp(f.rise) AS factor,
       exp(f.before) / 1e3 AS before_us, exp(f.before + f.rise) / 1e3 AS since_us, 100 * f.noise AS noise_percent,
       f.cost / f.traces / 1e6 AS cost_ms, CASE WHEN f.gpu > 0 THEN 100 * f.cost / f.gpu END AS percent,
       f.k AS builds_before, f.m - f.k AS builds_since,
       COLLECT { MATCH (x)<-[r:SPENT]-(t)-[s:SPENT]->(y:KernelName) WHERE y.key IN r.kernels
                 RETURN y.name ORDER BY s.ns DESC, y.key } AS kernels,
       COLLECT { MATCH (t)-[s:SPENT]->(y:Signature) WHERE x.key IN s.kernels
                 RETURN y.name + coalesce(' ' + y.input_dims, '') ORDER BY s.ns DESC, y.key } AS signatures,
       COLLECT { MATCH (t)-[s:SPENT]->(y:ModulePlace) WHERE x.key IN s.kernels
                 RETURN y.path ORDER BY s.own_ns DESC, y.key } AS modules
