// Critical path: what bounded a step over all ranks of a run, segment by segment.
//
// The critical path goes back from the last GPU end of the step, over what each point had to wait for last, to the last
// GPU end of the steps before it: each segment begins where the one before it ends, and they add up to the step.
// `db push` stores the paths of a run whose ranks are pushed together.
//
// Parameters:
//   run: name of a run; null for that of the trace that was pushed last
//   step: n of ProfilerStep#n; null for the path through everything there is
//
// Columns:
//   place: place on the path, from 1
//   class: what the time is: host, launch, computation, communication, peer (waiting for ranks that were not pushed),
//     copy, stream, event or sync (waiting for the stream, another stream, or GPU work), unrecorded
//   rank: number of the rank; its place in the run where it is not known; null where nothing is recorded
//   trace: name of the trace of the rank
//   name: GPU work; of host time the innermost call with most of it; of launches and waits the call; else the class
//   op: op that it is charged to, or that is around the call
//   module: innermost module around that
//   start_us: when it begins, from the beginning of the path, us
//   dur_ns: how long it lasts, ns
//   from_rank: rank that the path comes from, if it is another one
//   uid: uid of the event in the trace of its rank; null where there is none
WITH {run: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.run IS NULL OR t.run = p.run
WITH p, t.run AS run, t.pushed_ns AS pushed ORDER BY pushed DESC, t.id LIMIT 1
MATCH (g:Matching {run: run, state: 'complete'})
MATCH (c:CriticalPath)<-[:OF_PATH]-(s:PathSegment)
WHERE c.run = run AND (c.step = p.step OR (p.step IS NULL AND c.step IS NULL))
RETURN s.place AS place, s.class AS class, s.rank AS rank, s.trace_name AS trace, s.name AS name, s.op AS op,
       s.module AS module,
       (s.start_ns - c.start_ns) / 1000.0 AS start_us, s.dur_ns AS dur_ns, s.from_rank AS from_rank, s.uid AS uid
ORDER BY place
