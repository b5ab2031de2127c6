-- title: What activation checkpointing saves and costs
-- column variant: Layer, checkpointing
-- column copies: Copies of the hidden state .1
-- column kept: Kept, all layers [GB] .1
-- column working: Recomputed, one layer [GB] .1
-- column total: All activations [GB] .1
-- column more: More FLOPs [%] .1
-- note: Computed by the calculators from their formulas, not measured: Llama 3.1 8B, one sequence of 8,192 tokens in bf16, a fused attention kernel. llama: norms and SwiGLU unfused, as in Hugging Face Transformers; llama-fused: fused kernels for both. FLOPs count matmuls and attention, so selective checkpointing adds none.
SELECT a.layer || ', ' || a.recompute AS variant,
       a.copies AS copies,
       a.layers_bytes / 1e9 AS kept,
       a.recomputed_bytes / 1e9 AS working,
       a.activation_bytes / 1e9 AS total,
       100.0 * (f.hardware_flop / f.model_flop - 1.0) AS more
FROM calculators AS a
JOIN records AS r ON r.record = a.record
JOIN calculators AS f ON f.recompute = CASE a.recompute WHEN 'full' THEN 'full' ELSE 'none' END
                     AND f.calculator = 'flops' AND f.sequence = a.sequence
JOIN records AS q ON q.record = f.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'activations'
  AND a.calculator = 'activations'
  AND q.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND q.newest
  AND q.complete
  AND q.profile = 'recomputation'
ORDER BY a.activation_bytes DESC, a.layer
