-- title: Bytes per parameter by optimizer and precision
-- column mode: Optimizer and precision
-- column weights: Weight [B] .0
-- column gradients: Gradient [B] .0
-- column master: Master [B] .0
-- column states: States [B] .0
-- column bytes: Total [B] .0
-- column model: 8B [GB] .1
-- note: Names as the calculator's `--mode` takes them: mixed keeps bf16 weights and a master copy, momentum is the one state of SGD with momentum or Lion. Computed from its formulas, not measured: bytes per parameter, nothing sharded; the 8B model has 8.03 billion. Master is an fp32 copy of the weights. 8-bit states exclude block scales. Adafactor without momentum, 0.002 bytes for matrices of 4,096 by 4,096.
SELECT '`' || c.mode || '`' AS mode,
       c.weights_bytes / c.parameters AS weights,
       c.gradients_bytes / c.parameters AS gradients,
       c.master_bytes / c.parameters AS master,
       c.states_bytes / c.parameters AS states,
       c.bytes_per_parameter AS bytes,
       c.rank_bytes / 1e9 AS model
FROM calculators AS c
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'optimizers'
  AND c.calculator = 'memory'
ORDER BY c.bytes_per_parameter DESC, c.mode
