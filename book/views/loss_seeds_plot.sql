-- title: Loss after 300 steps by seed
-- column arm: Setting
-- column seed: Seed .0
-- column loss: Held-out loss .3
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seeds 0 to 7.
-- plot: scatter
-- plot x: seed
-- plot y: loss
-- plot by: arm
SELECT l.arm AS arm,
       l.seed AS seed,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'seeds'
ORDER BY l.arm, l.seed
