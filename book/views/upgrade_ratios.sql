-- title: Each accelerator as a multiple of the H100 SXM
-- column accelerator: To
-- column peak: Peak bf16, times .2
-- column fp8: Peak fp8, times .2
-- column reached: Matmul reached, times .2
-- column bandwidth: Memory bandwidth, times .2
-- column memory: Memory, times .2
-- column power: Power, times .2
-- column domain: Accelerators in one link domain .0
-- note: Derived from the tables in the chapter on accelerators, relative to H100 SXM. Reached: bf16, best published figure, with different software. If the price ratio exceeds the ratio in your bottleneck's column, you lose money.
SELECT its.accelerator || CASE its_facts.status WHEN 'announced' THEN ' (announced)' ELSE '' END AS accelerator,
       1.0 * its.tflops / h100.tflops AS peak,
       1.0 * its_fp8.tflops / h100_fp8.tflops AS fp8,
       1.0 * its_best.tflops / h100_best.tflops AS reached,
       1.0 * its_memory.bandwidth / h100_memory.bandwidth AS bandwidth,
       1.0 * its_memory.memory / h100_memory.memory AS memory,
       1.0 * its_power.power / h100_power.power AS power,
       its_fabric.domain AS domain
FROM accelerator_tflops its
JOIN accelerators its_facts USING (accelerator)
JOIN accelerator_memory its_memory USING (accelerator)
LEFT JOIN accelerator_fabric its_fabric ON its_fabric.accelerator = its.accelerator
LEFT JOIN accelerator_power its_power ON its_power.accelerator = its.accelerator
LEFT JOIN accelerator_tflops its_fp8 ON its_fp8.accelerator = its.accelerator AND its_fp8.dtype = 'fp8'
LEFT JOIN (SELECT accelerator, max(tflops) AS tflops FROM matmul_maxima WHERE dtype = 'bf16' GROUP BY accelerator) its_best ON its_best.accelerator = its.accelerator
JOIN (SELECT accelerator, max(tflops) AS tflops FROM matmul_maxima WHERE dtype = 'bf16' GROUP BY accelerator) h100_best ON h100_best.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_tflops h100 ON h100.accelerator = 'NVIDIA H100 SXM' AND h100.dtype = 'bf16'
JOIN accelerator_tflops h100_fp8 ON h100_fp8.accelerator = 'NVIDIA H100 SXM' AND h100_fp8.dtype = 'fp8'
JOIN accelerator_memory h100_memory ON h100_memory.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_power h100_power ON h100_power.accelerator = 'NVIDIA H100 SXM'
WHERE its.dtype = 'bf16' AND its.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA H200 SXM', 'NVIDIA B200 SXM', 'NVIDIA B300 SXM', 'NVIDIA GB200', 'NVIDIA GB300', 'NVIDIA Rubin', 'AMD MI300X', 'AMD MI325X', 'AMD MI350X', 'AMD MI355X', 'Intel Gaudi 3')
ORDER BY its.tflops, its_memory.bandwidth, its_memory.memory, its.accelerator
