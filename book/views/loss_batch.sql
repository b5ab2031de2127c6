-- title: Steps and symbols read until the loss is 1.5, by batch size
-- column batch: Batch, windows .0
-- column steps: Steps .0
-- column symbols: Symbols read .0
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. The better of two learning rates for each size; looked at every 10 steps.
SELECT l.setting AS batch,
       min(l.step) AS steps,
       min(l.symbols) AS symbols
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'batch'
  AND l.ended = 'target'
GROUP BY l.setting
ORDER BY l.setting
