-- title: Roofline ridge points
-- column accelerator: Accelerator
-- column bf16: BF16 peak [TFLOPS] .0
-- column bandwidth: Bandwidth [GBps] .0
-- column knee: BF16 ridge point [FLOP per byte] .0
-- column knee_fp8: FP8 ridge point [FLOP per byte] .0
-- column reached: BF16 reached [TFLOPS] .1
-- column knee_reached: Ridge point at that rate [FLOP per byte] .0
-- note: Derived from the specified peaks, the specified bandwidths and the best reported matmuls. A dash: one of the inputs is not published.
SELECT m.accelerator,
       max(CASE f.dtype WHEN 'bf16' THEN f.tflops END) AS bf16,
       m.bandwidth,
       max(CASE f.dtype WHEN 'bf16' THEN f.tflops END) * 1e12 / (m.bandwidth * 1e9) AS knee,
       max(CASE f.dtype WHEN 'fp8' THEN f.tflops END) * 1e12 / (m.bandwidth * 1e9) AS knee_fp8,
       x.tflops AS reached,
       x.tflops * 1e12 / (m.bandwidth * 1e9) AS knee_reached
FROM accelerator_memory m
JOIN accelerators a USING (accelerator)
JOIN accelerator_tflops f USING (accelerator)
LEFT JOIN (SELECT accelerator, max(tflops) AS tflops
           FROM matmul_maxima
           WHERE dtype = 'bf16'
           GROUP BY accelerator) x USING (accelerator)
WHERE m.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA H200 SXM', 'NVIDIA B200 SXM', 'NVIDIA GB300', 'AMD MI300X', 'AMD MI325X', 'AMD MI355X', 'Google TPU v7x', 'AWS Trainium3')
GROUP BY m.accelerator, m.bandwidth, x.tflops
ORDER BY knee DESC, m.accelerator;
