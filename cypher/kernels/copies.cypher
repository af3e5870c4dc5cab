// Copies and fills: how many bytes went where, in which portions and how fast.
//
// Kernels that only copy (ROCm where no copy engine serves) are included; their bytes were not recorded.
//
// Parameters:
//   trace: run/name, name or id of a trace; null for the one that was pushed last
//   step: n of ProfilerStep#n; null for all
//
// Columns:
//   direction: H is the host, D a device, P another device; fill for fills, else unknown
//   name: name of the copies, which also names the kind of memory
//   size_class: size of a single copy; absent where it was not recorded
//   count: number of copies
//   bytes: their bytes, B
//   gpu_time_us: sum of their durations, us
//   gb_per_s: bytes per time of those with recorded bytes, GB/s
//   percent: share of the GPU time, the sum of the durations of all GPU events, %
WITH {trace: null, step: null} AS p
MATCH (t:Trace {state: 'complete'})
WHERE p.trace IS NULL OR p.trace IN [t.id, t.path, t.name]
WITH p, t ORDER BY t.pushed_ns DESC, t.id LIMIT 1
CALL (p, t) {
  MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
  RETURN sum(k.dur_ns) AS total
}
MATCH (k:GpuEvent) WHERE k.trace = t.id AND (p.step IS NULL OR k.step = p.step)
WITH total, k, k.gpu_class = 'memcpy' OR k:Memcpy OR k:Memset AS copies
WHERE copies
WITH total, k.name AS name, k:Memset AS fills,
     CASE WHEN k.bytes IS NULL THEN null
          WHEN k.bytes < 4096 THEN 'below 4 KiB'
          WHEN k.bytes < 65536 THEN '4 KiB to 64 KiB'
          WHEN k.bytes < 1048576 THEN '64 KiB to 1 MiB'
          WHEN k.bytes < 16777216 THEN '1 MiB to 16 MiB'
          ELSE '16 MiB and more' END AS size_class,
     count(*) AS events, sum(k.bytes) AS bytes, sum(k.dur_ns) AS ns
RETURN CASE WHEN fills THEN 'fill'
            WHEN name CONTAINS 'HtoD' OR name CONTAINS 'HOST_TO_DEVICE' OR name CONTAINS 'HostToDevice'
                 OR name CONTAINS 'pyH2D' THEN 'HtoD'
            WHEN name CONTAINS 'DtoH' OR name CONTAINS 'DEVICE_TO_HOST' OR name CONTAINS 'DeviceToHost'
                 OR name CONTAINS 'pyD2H' THEN 'DtoH'
            WHEN name CONTAINS 'DtoD' OR name CONTAINS 'DEVICE_TO_DEVICE' OR name CONTAINS 'DeviceToDevice'
                 OR name CONTAINS 'pyD2D' THEN 'DtoD'
            WHEN name CONTAINS 'HtoH' OR name CONTAINS 'HOST_TO_HOST' OR name CONTAINS 'HostToHost'
                 OR name CONTAINS 'pyH2H' THEN 'HtoH'
            WHEN name CONTAINS 'PtoP' OR name CONTAINS 'PeerToPeer'
                 OR name CONTAINS 'pyP2P' THEN 'PtoP'
            ELSE 'unknown' END AS direction,
       name, size_class, events AS count, CASE WHEN size_class IS NOT NULL THEN bytes END AS bytes, ns / 1e3 AS gpu_time_us,
       CASE WHEN size_class IS NOT NULL AND ns > 0 THEN toFloat(bytes) / ns END AS gb_per_s,
       CASE WHEN total > 0 THEN 100.0 * ns / total END AS percent
ORDER BY gpu_time_us DESC, name, size_class
