-- title: A step with accumulation on a slow network
-- column accumulation: Micro-batches .0
-- column tokens: Tokens [M] .2
-- column compute: Compute [s] .2
-- column network: Network [s] .2
-- column share: Network share, none hidden [%] .0
-- column steps: Steps for 1T tokens [K] .0
-- note: Computed by the calculators, not measured: 64 ranks with one sequence of 8,192 tokens per micro-batch, DDP of an 8B model with gradients in bf16, 40 GBps. Compute is derived from 6 FLOPs per parameter per token at an assumed 400 TFLOPS.
SELECT b.accumulation AS accumulation,
       b.step_tokens / 1e6 AS tokens,
       6.0 * t.parameters * b.step_tokens / b.data_ranks / 400e12 AS compute,
       t.traffic_seconds AS network,
       100.0 * t.traffic_seconds / (t.traffic_seconds + 6.0 * t.parameters * b.step_tokens / b.data_ranks / 400e12) AS share,
       b.steps / 1e3 AS steps
FROM calculators AS b
JOIN records AS r ON r.record = b.record
JOIN calculators AS t ON t.calculator = 'zero-traffic' AND t.zero_stage = 0 AND t.bandwidth = 40e9
JOIN records AS q ON q.record = t.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'accumulation'
  AND b.calculator = 'batch'
  AND q.machine = 'cpu-x86_64-avx2-2core'
  AND q.newest
  AND q.complete
  AND q.profile = 'traffic'
ORDER BY b.accumulation
