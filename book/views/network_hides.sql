-- title: What a network can hide behind the compute
-- column node: Network of a node, Gbps .0
-- column busbw: Bus bandwidth [GBps] .0
-- column ddp: DDP, traffic [s] .2
-- column zero3: ZeRO-3, traffic [s] .2
-- column tokens_ddp: DDP, tokens that hide it .0
-- column tokens_zero3: ZeRO-3, tokens that hide it .0
-- note: Computed by the calculator from its formula, not measured: 8 billion parameters, 2 bytes for weights and gradients, 64 data-parallel ranks. The network of a node: derived, bus bandwidth over an assumed 0.8. Tokens: derived, the traffic times an assumed 400 TFLOPS of each rank over 6 FLOPs per parameter and token; tokens per rank between two synchronizations, for ZeRO-3 per micro-batch.
SELECT d.bandwidth * 8 / 0.8 / 1e9 AS node,
       d.bandwidth / 1e9 AS busbw,
       d.traffic_seconds AS ddp,
       z.traffic_seconds AS zero3,
       d.traffic_seconds * 400e12 / (6 * d.parameters) AS tokens_ddp,
       z.traffic_seconds * 400e12 / (6 * z.parameters) AS tokens_zero3
FROM calculators AS d
JOIN calculators AS z ON z.record = d.record AND z.bandwidth = d.bandwidth AND z.zero_stage = 3
JOIN records AS r ON r.record = d.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'traffic'
  AND d.calculator = 'zero-traffic'
  AND d.zero_stage = 0
ORDER BY d.bandwidth;
