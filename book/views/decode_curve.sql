-- title: Throughput against latency as the batch grows
-- column total: Throughput, tokens/s .0
-- column token: Time per token [ms] .1
-- column context: Context
-- note: Computed: the longer of memory read and compute in a decode step, Llama 3.1 8B in bf16 on one H100 SXM at its peaks, batches of 1, 2, 4 and so on. A line ends where the next batch does not fit into memory.
-- plot: line
-- plot x: total
-- plot y: token
-- plot by: context
-- plot log: x, y
SELECT d.batch / max(d.decode_seconds, 2 * s.parameters * 1e9 * d.batch / (f.tflops * 1e12)) AS total,
       max(d.decode_seconds, 2 * s.parameters * 1e9 * d.batch / (f.tflops * 1e12)) * 1e3 AS token,
       CAST(d.context AS INTEGER) || ' tokens' AS context
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
ORDER BY d.context, d.batch
