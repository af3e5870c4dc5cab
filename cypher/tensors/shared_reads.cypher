// Shared reads: storages that kernels on several streams of a device read.
//
// A kernel counts for the op that it is charged to: it reads what the op reads. Only traces that were linked with their
// execution trace have tensors.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   top: number of rows; 0 for all
//
// Columns:
//   storage: name of the storage
//   bytes: its size, B
//   device: index of the device of the kernels
//   streams: number of streams with kernels of ops that read it
//   stream_numbers: the numbers of these streams
//   kernels: number of these kernels, copies and fills
//   gpu_time_us: sum of the durations of the GPU events, us
//   uid: the first of them
WITH {trace: null, top: 20} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
MATCH (s:Storage)<-[:STORED_IN]-(:Tensor)<-[:CONSUMES]-(:Op)<-[:CHARGED_TO]-(k:GpuEvent)
WHERE s.trace = t.id AND k.device IS NOT NULL AND k.stream IS NOT NULL
WITH DISTINCT p, s, k ORDER BY k.stream
WITH p, s, k.device AS device, collect(DISTINCT k.stream) AS streams, collect(k) AS kernels
WHERE size(streams) > 1
WITH *, reduce(ns = 0, k IN kernels | ns + k.dur_ns) AS time, reduce(first = kernels[0], k IN kernels |
    CASE WHEN k.start_ns < first.start_ns OR (k.start_ns = first.start_ns AND k.uid < first.uid) THEN k ELSE first END
  ).uid AS uid
ORDER BY size(streams) DESC, time DESC, s.storage_id, s.version
WITH p, collect([s, device, streams, size(kernels), time, uid]) AS rows
UNWIND CASE p.top WHEN 0 THEN rows ELSE rows[..p.top] END AS row
WITH row, row[0] AS s, row[2] AS streams
RETURN s.name AS storage, s.bytes AS bytes, row[1] AS device, size(streams) AS streams,
       reduce(text = toString(streams[0]), n IN streams[1..] | text + ', ' + toString(n)) AS stream_numbers,
       row[3] AS kernels, row[4] / 1e3 AS gpu_time_us, row[5] AS uid
