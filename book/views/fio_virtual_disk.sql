-- title: The disk of a small virtual machine under requests of 4 KiB
-- column load: Load
-- column rate: Rate [GBps] .2
-- column range: Lowest to highest [%] .0
-- column p50: p50 [ms] .1
-- column p99: p99 [ms] .1
-- column in_flight: In flight .0
-- column verdict: Verdict
-- note: One virtual disk, used by others too, under 16 processes with 64 requests each: this shows the shape of an answer and says nothing of a storage system.
-- note: Rate: median of the runs. Lowest to highest: derived, the difference of the two in percent of the median. p50 and p99: latency over all requests of all runs. In flight: derived, requests a second times mean latency.
-- The newest whole run of these loads on this machine: a new one makes the table stale.
SELECT m.pattern || ', files of ' || CASE m.file_bytes WHEN 16384 THEN '16 KiB' WHEN 1048576 THEN '1 MiB' WHEN 1073741824 THEN '1 GiB' ELSE 'another size' END AS load,
       m.bytes_per_second_median / 1e9 AS rate,
       100.0 * (m.bytes_per_second_max - m.bytes_per_second_min) / m.bytes_per_second_median AS range,
       m.latency_seconds_p50 * 1e3 AS p50,
       m.latency_seconds_p99 * 1e3 AS p99,
       m.requests_per_second_median * m.latency_seconds_mean AS in_flight,
       m.verdict AS verdict
FROM fio_scan AS m
JOIN records AS r ON r.record = m.record
WHERE r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND r.machine = 'cpu-x86_64-avx2-2core'
  AND m.block_bytes = 4096
  AND m.jobs = 16
  AND m.iodepth = 64
ORDER BY m.pattern, m.file_bytes, r.record
