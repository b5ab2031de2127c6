-- title: BF16 matmul pass thresholds
-- column accelerator: Accelerator
-- column reached: Best with PyTorch [TFLOPS] .0
-- column floor: Investigate below [TFLOPS] .0
-- column software: Software
-- column source: Source
-- note: Best with PyTorch: reported, the best shape of a search. Investigate below: derived, 90 % of it (our threshold). Expect less at any single shape, so compare after a search.
SELECT x.accelerator,
       x.tflops AS reached,
       0.9 * x.tflops AS floor,
       x.software,
       '[1](' || x.source || ')' AS source
FROM matmul_maxima x
WHERE x.dtype = 'bf16' AND x.class = 'reported'
  AND x.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA GH200', 'NVIDIA B200 SXM', 'NVIDIA B300 SXM', 'NVIDIA GB200', 'AMD MI300X', 'AMD MI325X', 'AMD MI355X')
ORDER BY x.tflops, x.accelerator
