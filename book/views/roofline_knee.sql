-- title: Arithmetic intensity at the knee of the roofline
-- column accelerator: Accelerator
-- column bf16: BF16 peak [TFLOPS] .0
-- column bandwidth: Bandwidth [GBps] .0
-- column knee: BF16 knee [FLOP per byte] .0
-- column knee_fp8: FP8 knee [FLOP per byte] .0
-- column reached: BF16 reached [TFLOPS] .1
-- column knee_reached: Knee with that [FLOP per byte] .0
-- note: Derived from the tables of peaks, bandwidths and measured matmuls; the bandwidth is always the specified peak. A dash: one of the inputs is not published.
-- plot: scatter
-- plot x: bandwidth
-- plot y: bf16
-- plot log: x, y
-- plot labels: accelerator
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
WHERE a.status = 'available'
GROUP BY m.accelerator, m.bandwidth, x.tflops
ORDER BY knee DESC, m.accelerator;
