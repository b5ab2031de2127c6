-- title: GPU-hours of published runs, and their average share of peak
-- column run: Run
-- column parameters: Active parameters [B] .0
-- column tokens: Tokens [T] .2
-- column trained_on: GPU
-- column device_hours: GPU-hours .0
-- column share: Share of peak [%] .0
-- column source: Source
-- note: Share: derived, 6 FLOPs per active parameter and token over hours times dense bf16 peak. Compare with care: attention scores are not counted, DeepSeek-V3 used fp8 matmuls, and the hours of some model cards include more than pre-training.
SELECT r.run AS run,
       r.parameters AS parameters,
       r.tokens AS tokens,
       r.trained_on AS trained_on,
       r.device_hours AS device_hours,
       100.0 * 6.0 * r.parameters * r.tokens * 1e9 / (r.device_hours * 3600.0 * f.tflops) AS share,
       '[1](' || r.source || ')' AS source
FROM training_runs r
JOIN accelerator_tflops f ON f.accelerator = r.peak_of AND f.dtype = 'bf16'
ORDER BY r.device_hours, r.run
