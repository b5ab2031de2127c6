-- title: The finder at toy size on a CPU
-- column shape: Shape M x N x K
-- column dtype: Type
-- column samples: Calls
-- column microseconds: Median time [µs] .0
-- column spread: IQR [%] .0
-- column gflops: Rate at the median [GFLOPS] .0
-- column machine: Machine
-- column date: Date
-- note: A CPU at toy sizes: this shows that the instrument works and says nothing of an accelerator.
-- note: IQR is the interquartile range, in percent of the median.
-- The newest toy run of this machine: a new one makes the table stale.
SELECT
    CAST(m.m AS INTEGER) || ' x ' || CAST(m.n AS INTEGER) || ' x ' || CAST(m.k AS INTEGER) AS shape,
    m.dtype AS dtype,
    m.samples AS samples,
    m.seconds_median * 1e6 AS microseconds,
    m.seconds_iqr / m.seconds_median * 100 AS spread,
    m.flops_per_second_median / 1e9 AS gflops,
    r.machine AS machine,
    r.date AS date
FROM mamf_finder AS m
JOIN records AS r ON r.record = m.record
WHERE m.seconds_median > 0
  AND r.newest
  AND r.profile = 'toy'
  AND r.machine = 'cpu-x86_64-avx2-2core'
ORDER BY m.flops_per_second_median DESC, m.m, m.n, m.k
LIMIT 8
