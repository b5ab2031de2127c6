-- title: Weights kept in bfloat16 without a float32 copy
-- column arm: Run
-- column step: Step .0
-- column loss: Training loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. Means of 20 steps, peak learning rate 0.001, half a cosine down to a tenth.
-- plot: line
-- plot x: step
-- plot y: loss
-- plot by: arm
SELECT l.arm AS arm,
       l.step AS step,
       l.loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND l.experiment = 'weights'
ORDER BY l.arm, l.step
