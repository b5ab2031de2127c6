-- title: The steps of a start, by rank
-- column rank: Rank .0
-- column arrival: Arrival [ms] .1
-- column device: Device [ms] .1
-- column grouped: Group [ms] .1
-- column reduction: Reduction [ms] .1
-- column barrier: Barrier [ms] .1
-- column verdict: Verdict
-- note: A small trial run: two ranks of gloo on one CPU. The first column holds the waiting of whoever came first.
SELECT t.rank AS rank,
       t.arrival_seconds * 1e3 AS arrival,
       t.device_seconds * 1e3 AS device,
       t.group_seconds * 1e3 AS grouped,
       t.reduction_seconds * 1e3 AS reduction,
       t.barrier_seconds * 1e3 AS barrier,
       t.verdict AS verdict
FROM torch_distributed_check AS t
JOIN records AS r ON r.record = t.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY t.rank, r.record
