-- title: What published runs took, and what of the peak they reached on average
-- column run: Run
-- column parameters: Active parameters [B] .0
-- column tokens: Tokens [T] .2
-- column trained_on: Device
-- column device_hours: Device hours [h] .0
-- column share: Share of the peak [%] .0
-- column source: Source
-- note: Share: derived, 6 FLOPs per active parameter and token, divided by the hours and the dense bf16 peak. The attention over the sequence is not counted, DeepSeek-V3 multiplied in fp8, and the hours of some model cards hold more than pre-training: compare with care.
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
