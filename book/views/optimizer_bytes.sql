-- title: Bytes of a parameter by optimizer and precision
-- column mode: Optimizer and precision
-- column weights: Weight [B] .0
-- column gradients: Gradient [B] .0
-- column master: Master [B] .0
-- column states: States [B] .0
-- column bytes: All [B] .0
-- column model: 8B [GB] .1
-- note: Computed by the calculator from its formulas, not measured: bytes of each parameter, nothing sharded; the 8B model has 8.03 billion. Master: a copy of the weights in fp32. 8-bit states without the scales of their blocks; Adafactor without momentum, 0.002 bytes for matrices of 4,096 by 4,096.
SELECT CASE c.mode
         WHEN 'adamw-fp32' THEN 'AdamW, all in fp32'
         WHEN 'adamw-mixed' THEN 'AdamW, mixed'
         WHEN 'adamw-mixed-fp32-gradients' THEN 'AdamW, mixed, gradients in fp32'
         WHEN 'adamw-bf16' THEN 'AdamW, all in bf16'
         WHEN 'adamw-8bit-mixed' THEN 'AdamW with 8-bit states, mixed'
         WHEN 'adamw-8bit-bf16' THEN 'AdamW with 8-bit states, bf16'
         WHEN 'momentum-mixed' THEN 'one state (momentum, Lion), mixed'
         WHEN 'sgd-mixed' THEN 'plain SGD, mixed'
         WHEN 'adafactor-mixed' THEN 'Adafactor, mixed'
         ELSE c.mode
       END AS mode,
       c.weights_bytes / c.parameters AS weights,
       c.gradients_bytes / c.parameters AS gradients,
       c.master_bytes / c.parameters AS master,
       c.states_bytes / c.parameters AS states,
       c.bytes_per_parameter AS bytes,
       c.rank_bytes / 1e9 AS model
FROM calculators AS c
JOIN records AS r ON r.record = c.record
WHERE r.newest
  AND r.complete
  AND r.profile = 'optimizers'
  AND c.calculator = 'memory'
ORDER BY c.bytes_per_parameter DESC, c.mode
