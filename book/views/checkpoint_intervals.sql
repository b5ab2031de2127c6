-- title: How often to save, by job size
-- column devices: GPUs .0
-- column mtbf: MTBF [h] .1
-- column young: Young [min] .1
-- column daly: Daly [min] .1
-- column writing: Saving [%] .1
-- column lost: Lost in total [%] .1
-- column hour: Lost, saving hourly [%] .1
-- note: Computed by the calculator from its formulas, not measured: a save of 40 s, a restart of 10 minutes, one failure per GPU in 2,112 days.
SELECT c.devices AS devices,
       c.job_mtbf / 3600.0 AS mtbf,
       c.young_interval / 60.0 AS young,
       c.daly_interval / 60.0 AS daly,
       c.write_share * 100 AS writing,
       c.lost_share * 100 AS lost,
       c.own_lost_share * 100 AS hour
FROM calculators AS c
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND c.calculator = 'checkpoint'
  AND c.own_interval = 3600
ORDER BY c.devices
