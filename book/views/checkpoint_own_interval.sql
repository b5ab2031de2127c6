-- title: Share of time lost, by save interval
-- column interval: Interval [min] .0
-- column lost: Lost [%] .1
-- column devices: GPUs
-- note: Computed by the calculator from its formulas, not measured: a save of 40 s, a restart of 10 minutes, one failure per GPU in 2,112 days.
-- plot: line
-- plot x: interval
-- plot y: lost
-- plot by: devices
-- plot log: x
SELECT c.own_interval / 60.0 AS interval,
       c.own_lost_share * 100 AS lost,
       CAST(CAST(c.devices AS INTEGER) AS TEXT) || ' GPUs' AS devices
FROM calculators AS c
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND c.calculator = 'checkpoint'
  AND c.own_interval > 0
ORDER BY c.devices, c.own_interval
