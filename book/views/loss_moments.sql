-- title: Resuming without Adam's moments
-- column arm: Run
-- column step: Steps after the first stop .0
-- column loss: Training loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. Means of ten steps. Stopped after step 400 and then every 100 steps.
-- plot: line
-- plot x: step
-- plot y: loss
-- plot by: arm
SELECT l.arm AS arm,
       l.step - 400 AS step,
       l.loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND l.experiment = 'resume'
  AND l.arm IN ('moments lost', 'never stopped')
  AND l.step >= 380
ORDER BY l.arm, l.step
