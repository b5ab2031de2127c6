-- title: Loss after 300 steps by the standard deviation of the first weights
-- column std: Standard deviation
-- column loss: Held-out loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0.
-- plot: line
-- plot x: std
-- plot y: loss
-- plot log: x
SELECT l.setting AS std,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'init'
  AND l.ended <> ''
ORDER BY l.setting
