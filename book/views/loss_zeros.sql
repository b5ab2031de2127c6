-- title: Gradients that are 0 in float16
-- column dtype: Type
-- column zeros: Zero at a scale of 2^-20 [%] .0
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0.
SELECT l.arm AS dtype,
       100.0 * l.zero_gradient_share AS zeros
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'precision'
  AND l.setting < 0.000001
ORDER BY l.arm
