-- title: How high, and how long
-- column arm: What happens at step 300
-- column highest: Highest held-out loss .1
-- column back: Back at the old level after [steps] .0
-- column final: Held-out loss at step 480 .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. Back: the first reading, at or after step 310, within 5 % of the undisturbed loss at step 300. A dash: not by step 480, or nothing to come back from.
SELECT l.arm AS arm,
       max(l.held_out_loss) AS highest,
       min(CASE WHEN l.arm <> 'undisturbed' AND l.step >= 310 AND l.held_out_loss <= 1.05 * u.held_out_loss THEN l.step END) - 300 AS back,
       max(CASE WHEN l.ended <> '' THEN l.held_out_loss END) AS final
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
JOIN loss_patterns AS u ON u.record = l.record AND u.experiment = 'spike' AND u.arm = 'undisturbed' AND u.step = 300
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'spike'
  AND l.step > 300
GROUP BY l.arm
ORDER BY final, arm
