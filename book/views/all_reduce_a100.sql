-- title: All-reduce by size, eight A100 on NVLink 3
-- column size: Size [MiB] .3
-- column time: Time [ms] .3
-- column algbw: algbw [GBps] .2
-- column busbw: busbw [GBps] .2
-- column share: Share of link [%] .1
-- note: Time: reported, one run of nccl-tests. The rest: derived. algbw is size over time, busbw is algbw times 2 * 7 / 8, and the share is busbw over 300 GBps.
-- plot: line
-- plot x: size
-- plot y: busbw
-- plot log: x
SELECT size / 1048576.0 AS size,
       time / 1000.0 AS time,
       size / (time * 1000.0) AS algbw,
       size / (time * 1000.0) * 2 * (ranks - 1) / ranks AS busbw,
       100.0 * size / (time * 1000.0) * 2 * (ranks - 1) / ranks / specified AS share
FROM all_reduce_a100
ORDER BY size;
