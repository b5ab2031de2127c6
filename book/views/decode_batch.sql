-- title: A decode step of Llama 3.1 8B on one H100, at best
-- column batch: Sequences .0
-- column read: Weights and cache read [ms] .2
-- column compute: Compute [ms] .2
-- column cache: KV cache, share of read [%] .0
-- column each: Tokens/s per user .0
-- column total: Tokens/s in total .0
-- note: Computed: 16.06 GB of weights, 131,072 bytes of KV cache per token, 1,024 tokens of context, 3.35 TBps, and 2 FLOPs for each of 8.03 billion parameters at 989 TFLOPS. The longer time counts. The next doubling, 512 sequences, does not fit.
SELECT d.batch AS batch,
       d.decode_seconds * 1e3 AS read,
       2 * s.parameters * 1e9 * d.batch / (f.tflops * 1e12) * 1e3 AS compute,
       100.0 * d.kv_token_bytes * d.context * d.batch / d.step_read_bytes AS cache,
       1 / max(d.decode_seconds, 2 * s.parameters * 1e9 * d.batch / (f.tflops * 1e12)) AS each,
       d.batch / max(d.decode_seconds, 2 * s.parameters * 1e9 * d.batch / (f.tflops * 1e12)) AS total
FROM calculators AS d
JOIN records AS r ON r.record = d.record
JOIN model_shapes AS s ON s.model = 'Llama 3.1 8B'
JOIN accelerator_tflops AS f ON f.accelerator = 'NVIDIA H100 SXM' AND f.dtype = 'bf16'
JOIN accelerator_memory AS m ON m.accelerator = 'NVIDIA H100 SXM'
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'decode'
  AND d.calculator = 'decode'
  AND d.step_read_bytes < (m.memory * 0.9 - 2) * 1073741824
  AND d.context = 1024
ORDER BY d.batch
