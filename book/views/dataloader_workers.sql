-- title: Workers of the DataLoader against the time of a step
-- column workers: Workers .0
-- column step: Step [ms] .1
-- column spread: IQR [%] .1
-- column wait: Waiting for data [%] .1
-- column first: First batch after [s] .2
-- column pss: Workers' memory, PSS [MiB] .0
-- column verdict: Verdict
-- note: Measured on two CPU cores: 16 items of 4 ms CPU time each make a batch, the trainer's step is 100 ms of sleep. IQR: interquartile range, in percent of the median.
SELECT d.workers AS workers,
       d.step_seconds_median * 1e3 AS step,
       d.spread * 100 AS spread,
       d.wait_share * 100 AS wait,
       d.first_batch_seconds AS first,
       d.worker_pss_bytes / 1048576.0 AS pss,
       d.verdict AS verdict
FROM dataloader_bench AS d
JOIN records AS r ON r.record = d.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND d.batch_size = 16
ORDER BY d.workers;
