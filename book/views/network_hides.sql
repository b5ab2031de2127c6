-- title: The slower the network, the more tokens each rank needs
-- column node: Network per node, Gbps .0
-- column busbw: Bus bandwidth [GBps] .0
-- column ddp: DDP traffic [s] .2
-- column zero3: ZeRO-3 traffic [s] .2
-- column tokens_ddp: DDP tokens to hide it .0
-- column tokens_zero3: ZeRO-3 tokens to hide it .0
-- note: Computed by the calculator for 8B parameters, 2 bytes for weights and gradients, 64 data-parallel ranks. Network per node: derived, bus bandwidth over an assumed 0.8. Tokens per rank and synchronization (ZeRO-3: per micro-batch): derived, traffic time times an assumed 400 TFLOPS per rank over 6 FLOPs per parameter and token.
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
