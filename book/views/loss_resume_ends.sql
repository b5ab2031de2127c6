-- title: Held-out loss at the end of a run that was stopped
-- column arm: Run
-- column loss: Held-out loss at step 800 .6
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0.
SELECT l.arm AS arm,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND l.experiment = 'resume'
  AND l.ended <> ''
ORDER BY l.held_out_loss, l.arm
