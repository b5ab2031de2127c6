-- title: Memory taken and given back
-- column step: Step
-- column rss: RSS [MiB] .0
-- column growth: Growth [MiB] .1
-- column pss: PSS [MiB] .0
-- column peak: Peak [MiB] .0
-- column cost: The call took [ms] .1
-- note: A small trial run on a CPU that takes 16 MiB and gives them back; most of the rest is torch itself.
SELECT s.step AS step,
       s.rss_bytes / 1048576.0 AS rss,
       s.rss_growth_bytes / 1048576.0 AS growth,
       s.pss_bytes / 1048576.0 AS pss,
       s.peak_rss_bytes / 1048576.0 AS peak,
       s.cost_seconds * 1e3 AS cost
FROM see_mem_usage AS s
JOIN records AS r ON r.record = s.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY CASE s.step WHEN 'start' THEN 1 WHEN 'taken' THEN 2 WHEN 'given back' THEN 3 ELSE 4 END,
         s.step, r.record
