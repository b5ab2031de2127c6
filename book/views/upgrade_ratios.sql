-- title: Speed, bandwidth and memory ratios over H100 SXM
-- column accelerator: To
-- column peak: Peak bf16, times .2
-- column fp8: Peak fp8, times .2
-- column reached: Matmul reached, times .2
-- column bandwidth: Memory bandwidth, times .2
-- column memory: Memory, times .2
-- column power: Power, times .2
-- column domain: Accelerators in one link domain .0
-- note: Derived from the tables in the chapter on accelerators, relative to H100 SXM. Reached: bf16, best published figure, with different software. If the price ratio exceeds the ratio in your bottleneck's column, you lose money.
SELECT f.accelerator || CASE a.status WHEN 'announced' THEN ' (announced)' ELSE '' END AS accelerator,
       1.0 * f.tflops / f0.tflops AS peak,
       1.0 * e.tflops / e0.tflops AS fp8,
       1.0 * x.tflops / x0.tflops AS reached,
       1.0 * m.bandwidth / m0.bandwidth AS bandwidth,
       1.0 * m.memory / m0.memory AS memory,
       1.0 * p.power / p0.power AS power,
       l.domain AS domain
FROM accelerator_tflops f
JOIN accelerators a USING (accelerator)
JOIN accelerator_memory m USING (accelerator)
LEFT JOIN accelerator_fabric l ON l.accelerator = f.accelerator
LEFT JOIN accelerator_power p ON p.accelerator = f.accelerator
LEFT JOIN accelerator_tflops e ON e.accelerator = f.accelerator AND e.dtype = 'fp8'
LEFT JOIN (SELECT accelerator, max(tflops) AS tflops FROM matmul_maxima WHERE dtype = 'bf16' GROUP BY accelerator) x ON x.accelerator = f.accelerator
JOIN (SELECT accelerator, max(tflops) AS tflops FROM matmul_maxima WHERE dtype = 'bf16' GROUP BY accelerator) x0 ON x0.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_tflops f0 ON f0.accelerator = 'NVIDIA H100 SXM' AND f0.dtype = 'bf16'
JOIN accelerator_tflops e0 ON e0.accelerator = 'NVIDIA H100 SXM' AND e0.dtype = 'fp8'
JOIN accelerator_memory m0 ON m0.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_power p0 ON p0.accelerator = 'NVIDIA H100 SXM'
WHERE f.dtype = 'bf16' AND f.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA H200 SXM', 'NVIDIA B200 SXM', 'NVIDIA B300 SXM', 'NVIDIA GB200', 'NVIDIA GB300', 'NVIDIA Rubin', 'AMD MI300X', 'AMD MI325X', 'AMD MI350X', 'AMD MI355X', 'Intel Gaudi 3')
ORDER BY f.tflops, m.bandwidth, m.memory, f.accelerator
