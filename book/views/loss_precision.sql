-- title: Loss after 200 steps by what the loss is multiplied with
-- column arm: Run
-- column scale: Loss scale
-- column loss: Held-out loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. Weights and Adam in float32; forward and backward in the type named.
-- plot: line
-- plot x: scale
-- plot y: loss
-- plot by: arm
-- plot log: x
SELECT l.arm AS arm,
       l.setting AS scale,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'precision'
  AND l.ended <> ''
ORDER BY l.arm, l.setting
