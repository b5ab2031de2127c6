-- title: A virtual disk under the checkpoint load
-- column load: Load
-- column rate: Rate [GBps] .2
-- column range: Lowest to highest [%] .0
-- column p50: p50 [ms] .0
-- column p99: p99 [ms] .0
-- column in_flight: In flight .0
-- column verdict: Verdict
-- note: 8 processes, each with a file of 1 GiB in blocks of 4 MiB, written once with an fsync at the end, then read; 5 runs.
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
