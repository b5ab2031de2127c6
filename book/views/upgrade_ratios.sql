-- title: Upgrading from H100 SXM: the rate and the price that breaks even
-- column accelerator: To
-- column peak: Peak bf16, times .2
-- column reached: Matmul reached, times .2
-- column bandwidth: Memory bandwidth, times .2
-- column memory: Memory, times .2
-- column power: Power, times .2
-- note: Derived from the tables of the chapter on accelerators, all beside H100 SXM. Reached: the best published figure of each, reported, with unlike software. An hour that costs more than the column of your bottleneck says is a loss.
SELECT f.accelerator AS accelerator,
       1.0 * f.tflops / f0.tflops AS peak,
       1.0 * x.tflops / x0.tflops AS reached,
       1.0 * m.bandwidth / m0.bandwidth AS bandwidth,
       1.0 * m.memory / m0.memory AS memory,
       1.0 * p.power / p0.power AS power
FROM accelerator_tflops f
JOIN accelerators a USING (accelerator)
JOIN accelerator_memory m USING (accelerator)
JOIN accelerator_power p USING (accelerator)
JOIN (SELECT accelerator, max(tflops) AS tflops FROM matmul_maxima WHERE dtype = 'bf16' GROUP BY accelerator) x ON x.accelerator = f.accelerator
JOIN (SELECT accelerator, max(tflops) AS tflops FROM matmul_maxima WHERE dtype = 'bf16' GROUP BY accelerator) x0 ON x0.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_tflops f0 ON f0.accelerator = 'NVIDIA H100 SXM' AND f0.dtype = 'bf16'
JOIN accelerator_memory m0 ON m0.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_power p0 ON p0.accelerator = 'NVIDIA H100 SXM'
WHERE f.dtype = 'bf16' AND a.status = 'available' AND f.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA B200 SXM', 'NVIDIA B300 SXM', 'NVIDIA GB200', 'AMD MI300X', 'AMD MI325X', 'AMD MI355X', 'Intel Gaudi 3')
ORDER BY reached, f.accelerator
