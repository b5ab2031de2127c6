-- title: Weights that an update leaves as they are
-- column arm: Run
-- column step: Step .0
-- column loss: Unchanged weights .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. Share of all weights, means of 20 steps.
-- plot: line
-- plot x: step
-- plot y: loss
-- plot by: arm
SELECT l.arm AS arm,
       l.step AS step,
       l.unchanged_share AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'weights'
  AND l.arm <> 'float32'
ORDER BY l.arm, l.step
