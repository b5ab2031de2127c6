-- title: The good run of the three learning rates
-- column step: Step .0
-- column loss: Held-out loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0.
SELECT l.step AS step,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'rate'
  AND l.arm = 'warm-up of 20 steps'
  AND l.setting = 0.01
ORDER BY l.step
