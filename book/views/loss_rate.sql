-- title: Loss after 300 steps by learning rate
-- column arm: Run
-- column rate: Learning rate
-- column loss: Held-out loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0.
-- plot: line
-- plot x: rate
-- plot y: loss
-- plot by: arm
-- plot log: x
SELECT l.arm AS arm,
       l.setting AS rate,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND l.experiment = 'rate'
  AND l.ended <> ''
ORDER BY l.arm, l.setting
