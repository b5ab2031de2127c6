-- title: What one GPT layer keeps for the backward pass
-- column variant: Attention, recomputation
-- column kept: Kept [KiB] .0
-- column copies: Copies .2
-- column expected: Formula, copies .2
-- column difference: Difference .2
-- note: Kept and copies: measured on a CPU, bytes that autograd saves; hidden size 512, 8 heads, one sequence of 256 tokens, bfloat16, dropout 0.1.
-- note: Formula: derived from the bytes for each element that Korthikanti et al. 2022 count; sdpa is taken as a fused kernel.
-- plot: bar
-- plot x: variant
-- plot y: copies, expected
SELECT m.attention || ', ' || m.recompute AS variant,
       m.saved_bytes / 1024.0 AS kept,
       m.copies AS copies,
       (f.hidden_bytes + f.matrix_bytes * m.heads * m.sequence / m.hidden) / 2.0 AS expected,
       m.copies - (f.hidden_bytes + f.matrix_bytes * m.heads * m.sequence / m.hidden) / 2.0 AS difference
FROM activation_memory AS m
JOIN records AS r ON r.record = m.record
JOIN activation_formula AS f ON f.attention = m.attention AND f.recompute = m.recompute
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND m.norm = 'layer'
  AND m.hidden = 512
  AND m.sequence = 256
ORDER BY m.copies DESC, m.attention, m.recompute;
