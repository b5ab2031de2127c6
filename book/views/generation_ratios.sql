-- title: NVIDIA generations compared with A100: compute and what feeds it
-- column accelerator: Accelerator
-- column compute: Peak bf16, times A100 .1
-- column memory: Memory bandwidth, times A100 .1
-- column capacity: Memory, times A100 .1
-- column link: NVLink one way, times A100 .1
-- column power: Power, times A100 .1
-- note: Derived from the tables in the chapter on accelerators, dense peaks. Announced parts are projections.
SELECT f.accelerator || CASE a.status WHEN 'announced' THEN ' (announced)' ELSE '' END AS accelerator,
       1.0 * f.tflops / f0.tflops AS compute,
       1.0 * m.bandwidth / m0.bandwidth AS memory,
       1.0 * m.memory / m0.memory AS capacity,
       1.0 * l.one_way / l0.one_way AS link,
       1.0 * p.power / p0.power AS power
FROM accelerator_tflops f
JOIN accelerators a USING (accelerator)
JOIN accelerator_memory m USING (accelerator)
JOIN accelerator_fabric l USING (accelerator)
JOIN accelerator_power p USING (accelerator)
JOIN accelerator_tflops f0 ON f0.accelerator = 'NVIDIA A100 SXM' AND f0.dtype = 'bf16'
JOIN accelerator_memory m0 ON m0.accelerator = 'NVIDIA A100 SXM'
JOIN accelerator_fabric l0 ON l0.accelerator = 'NVIDIA A100 SXM'
JOIN accelerator_power p0 ON p0.accelerator = 'NVIDIA A100 SXM'
WHERE f.dtype = 'bf16' AND f.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA H200 SXM', 'NVIDIA B200 SXM', 'NVIDIA Rubin')
ORDER BY f.tflops, m.bandwidth
