-- title: Widths of a SwiGLU MLP near 8/3 of the hidden size
-- column width: Width
-- column alignment: Multiple of .0
-- column rate: Rate at the median [GFLOPS] .0
-- column spread: IQR [%] .0
-- column gain: Against 8/3 [%] .0
-- column parameters: Parameters [M] .2
-- column verdict: Verdict
-- note: Measured on one thread of two CPU cores: 8/3 of the hidden size 512 and the multiples of 16 around it, 256 tokens, float32, forward. IQR: interquartile range, in percent of the median.
SELECT CAST(s.d_ff AS INTEGER) || CASE WHEN s.is_baseline THEN ' (8/3)' ELSE '' END AS width,
       s.alignment AS alignment,
       s.flops_per_second_median / 1e9 AS rate,
       s.spread * 100 AS spread,
       s.relative * 100 AS gain,
       s.parameters / 1e6 AS parameters,
       s.verdict AS verdict
FROM swiglu_search AS s
JOIN records AS r ON r.record = s.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND s.hidden = 512
  AND (s.is_baseline OR s.alignment >= 16)
ORDER BY s.relative DESC, s.d_ff;
