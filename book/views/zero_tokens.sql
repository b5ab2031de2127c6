-- title: Tokens of a rank and micro-batch at which ZeRO 3 sends as long as it computes
-- column accelerator: Accelerator
-- column rate: 40 % of the bf16 peak [TFLOPS] .0
-- column inside: Its links inside, one way .0
-- column cards: Eight cards of 50 GBps in a node .0
-- column card: One card of 50 GBps for the node .0
-- note: The larger of the two figures on the way counts. Derived: rate over bytes a second, since 6 bytes a parameter stand against 6 operations a parameter and token. 40 % of the peak and wires at their full speed are assumed; with recomputation three quarters of the tokens do.
SELECT f.accelerator AS accelerator,
       0.4 * f.tflops AS rate,
       0.4 * f.tflops * 1000.0 / l.one_way AS inside,
       0.4 * f.tflops * 1000.0 / 400.0 AS cards,
       0.4 * f.tflops * 1000.0 / 50.0 AS card
FROM accelerator_tflops f
JOIN accelerator_fabric l USING (accelerator)
JOIN accelerators a USING (accelerator)
WHERE f.dtype = 'bf16' AND a.status = 'available'
  AND f.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA B200 SXM', 'NVIDIA B300 SXM', 'AMD MI300X', 'AMD MI355X', 'Intel Gaudi 3')
ORDER BY f.tflops, f.accelerator
