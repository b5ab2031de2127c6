-- title: Tokens per rank and micro-batch at which ZeRO 3 sends as long as it computes
-- column accelerator: Accelerator
-- column rate: 40 % of the bf16 peak [TFLOPS] .0
-- column domain: GPUs in the NVLink or Infinity Fabric domain .0
-- column inside: Inside the domain .0
-- column cards: 50 GBps NIC per GPU .0
-- column card: One 50 GBps NIC per 8 GPUs .0
-- note: Gradients in bf16. Derived: compute rate over bandwidth, because ZeRO 3 sends 6 bytes per parameter and computes 6 FLOPs per parameter and token. The bandwidth is that of the slower of the domain's fabric and all NICs of a domain. 40 % of the peak and links at full speed are assumed; with full activation checkpointing three quarters of the tokens suffice.
SELECT f.accelerator AS accelerator,
       0.4 * f.tflops AS rate,
       l.domain AS domain,
       0.4 * f.tflops * 1000.0 / l.one_way AS inside,
       0.4 * f.tflops * 1000.0 / min(l.one_way, l.domain * 50.0) AS cards,
       0.4 * f.tflops * 1000.0 / min(l.one_way, l.domain / 8.0 * 50.0) AS card
FROM accelerator_tflops f
JOIN accelerator_fabric l USING (accelerator)
JOIN accelerators a USING (accelerator)
WHERE f.dtype = 'bf16' AND a.status = 'available'
  AND f.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA B200 SXM', 'NVIDIA GB200', 'NVIDIA GB300', 'AMD MI300X', 'AMD MI355X', 'Intel Gaudi 3')
ORDER BY f.tflops, f.accelerator
