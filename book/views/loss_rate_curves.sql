-- title: A learning rate that is too low, a good one, and one that is too high
-- column rate: Learning rate
-- column step: Step .0
-- column loss: Training loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. Means of ten steps, warm-up of 20 steps.
-- plot: line
-- plot x: step
-- plot y: loss
-- plot by: rate
SELECT 'rate ' || l.setting AS rate,
       l.step AS step,
       l.loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'rate'
  AND l.arm = 'warm-up of 20 steps'
  AND l.setting IN (0.0003, 0.01, 0.3)
ORDER BY l.setting, l.step
