-- title: Three ratios of an upgrade from H100 SXM
-- column accelerator: To
-- column peak: Peak bf16, times .2
-- column reached: Matmul reached, times .2
-- column bandwidth: Memory bandwidth, times .2
-- note: The figures of the table of ratios.
-- plot: bar
-- plot x: accelerator
-- plot y: peak, reached, bandwidth
SELECT f.accelerator AS accelerator,
       1.0 * f.tflops / f0.tflops AS peak,
       1.0 * x.tflops / x0.tflops AS reached,
       1.0 * m.bandwidth / m0.bandwidth AS bandwidth
FROM accelerator_tflops f
JOIN accelerator_memory m USING (accelerator)
JOIN (SELECT accelerator, max(tflops) AS tflops FROM matmul_maxima WHERE dtype = 'bf16' GROUP BY accelerator) x ON x.accelerator = f.accelerator
JOIN (SELECT accelerator, max(tflops) AS tflops FROM matmul_maxima WHERE dtype = 'bf16' GROUP BY accelerator) x0 ON x0.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_tflops f0 ON f0.accelerator = 'NVIDIA H100 SXM' AND f0.dtype = 'bf16'
JOIN accelerator_memory m0 ON m0.accelerator = 'NVIDIA H100 SXM'
WHERE f.dtype = 'bf16' AND f.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA B200 SXM', 'NVIDIA B300 SXM', 'AMD MI300X', 'AMD MI325X', 'AMD MI355X')
ORDER BY reached, f.accelerator
