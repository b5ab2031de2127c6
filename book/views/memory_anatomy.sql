-- title: Optimizer states dominate; checkpointing shrinks only activations
-- column part: Part
-- column kept: No checkpointing [GB] .1
-- column selective: Selective [GB] .1
-- column full: Full [GB] .1
-- note: Computed by the calculators from their formulas, not measured: Llama 3.1 8B as Hugging Face Transformers runs it, with a fused attention kernel, AdamW in mixed precision, one GPU, one sequence of 8,192 tokens, logits in float32. Selective checkpointing keeps the outputs of matmuls and of attention.
-- plot: bar
-- plot x: part
-- plot y: kept, selective, full
SELECT q.part AS part, q.kept AS kept, q.selective AS selective, q.full AS full
FROM (SELECT 1 AS place, 'weights' AS part, m.weights_bytes / 1e9 AS kept, m.weights_bytes / 1e9 AS selective, m.weights_bytes / 1e9 AS full
      FROM calculators AS m JOIN records AS r ON r.record = m.record
      WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
        AND r.newest AND r.complete AND r.profile = 'optimizers' AND m.mode = 'adamw-mixed'
      UNION ALL
      SELECT 2, 'gradients', m.gradients_bytes / 1e9, m.gradients_bytes / 1e9, m.gradients_bytes / 1e9
      FROM calculators AS m JOIN records AS r ON r.record = m.record
      WHERE r.newest AND r.complete AND r.profile = 'optimizers' AND m.mode = 'adamw-mixed'
      UNION ALL
      SELECT 3, 'master weights', m.master_bytes / 1e9, m.master_bytes / 1e9, m.master_bytes / 1e9
      FROM calculators AS m JOIN records AS r ON r.record = m.record
      WHERE r.newest AND r.complete AND r.profile = 'optimizers' AND m.mode = 'adamw-mixed'
      UNION ALL
      SELECT 4, 'optimizer states', m.states_bytes / 1e9, m.states_bytes / 1e9, m.states_bytes / 1e9
      FROM calculators AS m JOIN records AS r ON r.record = m.record
      WHERE r.newest AND r.complete AND r.profile = 'optimizers' AND m.mode = 'adamw-mixed'
      UNION ALL
      SELECT 5, 'kept, all layers', a.layers_bytes / 1e9, s.layers_bytes / 1e9, f.layers_bytes / 1e9
      FROM calculators AS a JOIN records AS r ON r.record = a.record
      JOIN calculators AS s ON s.record = a.record AND s.layer = a.layer AND s.recompute = 'selective'
      JOIN calculators AS f ON f.record = a.record AND f.layer = a.layer AND f.recompute = 'full'
      WHERE r.newest AND r.complete AND r.profile = 'activations' AND a.layer = 'llama' AND a.recompute = 'none'
      UNION ALL
      SELECT 6, 'recomputed, one layer', a.recomputed_bytes / 1e9, s.recomputed_bytes / 1e9, f.recomputed_bytes / 1e9
      FROM calculators AS a JOIN records AS r ON r.record = a.record
      JOIN calculators AS s ON s.record = a.record AND s.layer = a.layer AND s.recompute = 'selective'
      JOIN calculators AS f ON f.record = a.record AND f.layer = a.layer AND f.recompute = 'full'
      WHERE r.newest AND r.complete AND r.profile = 'activations' AND a.layer = 'llama' AND a.recompute = 'none'
      UNION ALL
      SELECT 7, 'final norm and logits', a.outside_bytes / 1e9, s.outside_bytes / 1e9, f.outside_bytes / 1e9
      FROM calculators AS a JOIN records AS r ON r.record = a.record
      JOIN calculators AS s ON s.record = a.record AND s.layer = a.layer AND s.recompute = 'selective'
      JOIN calculators AS f ON f.record = a.record AND f.layer = a.layer AND f.recompute = 'full'
      WHERE r.newest AND r.complete AND r.profile = 'activations' AND a.layer = 'llama' AND a.recompute = 'none') AS q
ORDER BY q.place
