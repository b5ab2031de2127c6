-- title: Loss after 300 steps with and without a warm-up
-- column rate: Learning rate
-- column warm: With .2
-- column cold: Without .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0.
SELECT l.setting AS rate,
       max(CASE WHEN l.arm = 'warm-up of 20 steps' THEN l.held_out_loss END) AS warm,
       max(CASE WHEN l.arm = 'no warm-up' THEN l.held_out_loss END) AS cold
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND l.experiment = 'rate'
  AND l.ended <> ''
GROUP BY l.setting
ORDER BY l.setting
