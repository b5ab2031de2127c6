-- title: Bytes on each rank by ZeRO stage
-- column stage: Stage
-- column weights: Weights [GB] .2
-- column gradients: Gradients [GB] .2
-- column master: Master weights [GB] .2
-- column states: Adam's two states [GB] .2
-- column each: Each rank [GB] .2
-- note: Computed by the calculator from its formula, not measured: 7.5 billion parameters on 64 data-parallel ranks, AdamW in mixed precision, 16 bytes a parameter.
SELECT 'stage ' || CAST(c.zero_stage AS INTEGER) AS stage,
       c.weights_bytes / 1e9 AS weights,
       c.gradients_bytes / 1e9 AS gradients,
       c.master_bytes / 1e9 AS master,
       c.states_bytes / 1e9 AS states,
       c.rank_bytes / 1e9 AS each
FROM calculators AS c
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
  AND c.calculator = 'memory'
ORDER BY c.zero_stage;
