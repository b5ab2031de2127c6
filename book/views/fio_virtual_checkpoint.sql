-- title: Checkpoint load on a virtual disk
-- column load: Load
-- column rate: Bandwidth [GBps] .2
-- column range: Range [%] .0
-- column p50: p50 [ms] .0
-- column p99: p99 [ms] .0
-- column in_flight: In flight .0
-- column verdict: Verdict
-- note: 8 processes, each with a 1 GiB file in 4 MiB blocks, written once with a final fsync, then read. 5 runs. Range: lowest to highest, relative to the median.
-- The record is named, because what it says of fsync depends on its command.
SELECT m.pattern || ', ' || m.access AS load,
       m.bytes_per_second_median / 1e9 AS rate,
       100.0 * (m.bytes_per_second_max - m.bytes_per_second_min) / m.bytes_per_second_median AS range,
       m.latency_seconds_p50 * 1e3 AS p50,
       m.latency_seconds_p99 * 1e3 AS p99,
       m.requests_per_second_median * m.latency_seconds_mean AS in_flight,
       m.verdict AS verdict
FROM fio_scan AS m
WHERE m.record = 'fio_scan/cpu-x86_64-avx2-2core_20261121_4'
  AND m.block_bytes = 4194304
ORDER BY m.pattern, m.jobs, m.iodepth
