-- title: The same text in small batches, in large ones, and in batches that grow
-- column arm: Run
-- column symbols: Symbols read .0
-- column loss: Held-out loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. All three read 307,200 symbols at a rate of 0.01.
-- plot: line
-- plot x: symbols
-- plot y: loss
-- plot by: arm
SELECT l.arm AS arm,
       l.symbols AS symbols,
       l.held_out_loss AS loss
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'ramp'
ORDER BY l.arm, l.step
