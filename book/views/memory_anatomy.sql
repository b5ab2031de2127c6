-- title: What the memory of a training step consists of
-- column part: Part
-- column selective: Selective [GB] .1
-- column full: Full [GB] .1
-- note: Selective recomputation repeats the matrices of attention, full recomputation whole layers. Computed by the calculators from their formulas, not measured: 8.03 billion parameters with AdamW in mixed precision on one device, one sequence of 8,192 tokens through 32 layers of hidden size 4,096, vocabulary 128,256. Activations by the formula of a GPT layer, Korthikanti et al. 2022.
-- plot: bar
-- plot x: part
-- plot y: selective, full
SELECT q.part AS part, q.selective AS selective, q.full AS full
FROM (SELECT 1 AS place, 'weights' AS part, m.weights_bytes / 1e9 AS selective, m.weights_bytes / 1e9 AS full
      FROM calculators AS m JOIN records AS r ON r.record = m.record
      WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
        AND r.newest AND r.complete AND r.profile = 'optimizers' AND m.mode = 'adamw-mixed'
      UNION ALL
      SELECT 2, 'gradients', m.gradients_bytes / 1e9, m.gradients_bytes / 1e9
      FROM calculators AS m JOIN records AS r ON r.record = m.record
      WHERE r.newest AND r.complete AND r.profile = 'optimizers' AND m.mode = 'adamw-mixed'
      UNION ALL
      SELECT 3, 'master weights', m.master_bytes / 1e9, m.master_bytes / 1e9
      FROM calculators AS m JOIN records AS r ON r.record = m.record
      WHERE r.newest AND r.complete AND r.profile = 'optimizers' AND m.mode = 'adamw-mixed'
      UNION ALL
      SELECT 4, 'optimizer states', m.states_bytes / 1e9, m.states_bytes / 1e9
      FROM calculators AS m JOIN records AS r ON r.record = m.record
      WHERE r.newest AND r.complete AND r.profile = 'optimizers' AND m.mode = 'adamw-mixed'
      UNION ALL
      SELECT 5, 'kept of all layers', s.layers_bytes / 1e9, f.layers_bytes / 1e9
      FROM calculators AS s JOIN records AS r ON r.record = s.record
      JOIN calculators AS f ON f.record = s.record AND f.recompute = 'full'
      WHERE r.newest AND r.complete AND r.profile = 'kept' AND s.recompute = 'selective'
      UNION ALL
      SELECT 6, 'recomputed, a layer at a time', s.recomputed_bytes / 1e9, f.recomputed_bytes / 1e9
      FROM calculators AS s JOIN records AS r ON r.record = s.record
      JOIN calculators AS f ON f.record = s.record AND f.recompute = 'full'
      WHERE r.newest AND r.complete AND r.profile = 'kept' AND s.recompute = 'selective'
      UNION ALL
      SELECT 7, 'embedding, last norm and logits', s.outside_bytes / 1e9, f.outside_bytes / 1e9
      FROM calculators AS s JOIN records AS r ON r.record = s.record
      JOIN calculators AS f ON f.record = s.record AND f.recompute = 'full'
      WHERE r.newest AND r.complete AND r.profile = 'kept' AND s.recompute = 'selective') AS q
ORDER BY q.place
