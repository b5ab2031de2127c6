-- title: Clipping and skipping four bad batches
-- column arm: Run
-- column step: Step .0
-- column loss: Held-out loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. Adam with beta2 0.999; the bad batches are steps 301 to 304.
-- plot: line
-- plot x: step
-- plot y: loss
-- plot by: arm
SELECT CASE WHEN l.arm LIKE 'left out%' THEN 'steps skipped' ELSE l.arm END AS arm,
       l.step AS step,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND l.experiment = 'clip'
ORDER BY arm, l.step
