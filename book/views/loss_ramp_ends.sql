-- title: How the three batches end
-- column arm: Run
-- column steps: Steps .0
-- column loss: Held-out loss .3
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0.
SELECT l.arm AS arm,
       l.step AS steps,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'ramp'
  AND l.ended <> ''
ORDER BY l.step
