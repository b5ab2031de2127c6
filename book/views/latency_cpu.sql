-- title: One large all-reduce against a thousand small ones
-- column calls: Calls .0
-- column size: Each [kB] .0
-- column seconds: Together [s] .2
-- column spread: IQR [%] .0
-- note: Measured with gloo, 2 ranks on two CPU cores that other programs used too.
SELECT l.calls AS calls,
       l.call_bytes / 1e3 AS size,
       l.seconds_median AS seconds,
       l.spread * 100 AS spread
FROM all_reduce_latency_comp AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.rank = 0
ORDER BY l.calls
