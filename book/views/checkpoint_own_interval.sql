-- title: Share of the time that is lost, by the interval between saves
-- column interval: Interval [min] .0
-- column lost: Lost [%] .1
-- column devices: Devices
-- note: Computed by the calculator from its formulas, not measured: a save of 40 s, a restart of 10 minutes, one failure in 2,112 days for each device.
-- plot: line
-- plot x: interval
-- plot y: lost
-- plot by: devices
-- plot log: x
SELECT c.own_interval / 60.0 AS interval,
       c.own_lost_share * 100 AS lost,
       CAST(CAST(c.devices AS INTEGER) AS TEXT) || ' devices' AS devices
FROM calculators AS c
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND c.calculator = 'checkpoint'
  AND c.own_interval > 0
ORDER BY c.devices, c.own_interval
