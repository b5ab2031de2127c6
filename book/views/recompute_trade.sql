-- title: What recomputation saves and costs
-- column recompute: Recomputed
-- column layer: Kept of a layer [GB] .2
-- column kept: Kept of all layers [GB] .1
-- column working: Recomputed at a time [GB] .1
-- column total: All activations [GB] .1
-- column flop: FLOP a token [G] .1
-- column more: More arithmetic [%] .1
-- note: Computed by the calculators from their formulas, not measured: 8B model, 32 layers of hidden size 4,096 with 32 heads, one sequence of 8,192 tokens in 16 bit; activations of a GPT layer with its matrices of attention, Korthikanti et al. 2022.
SELECT a.recompute AS recompute,
       a.layer_bytes / 1e9 AS layer,
       a.layers_bytes / 1e9 AS kept,
       a.recomputed_bytes / 1e9 AS working,
       a.activation_bytes / 1e9 AS total,
       f.hardware_flop / 1e9 AS flop,
       100.0 * (f.hardware_flop / f.model_flop - 1.0) AS more
FROM calculators AS a
JOIN records AS r ON r.record = a.record
JOIN calculators AS f ON f.recompute = a.recompute AND f.calculator = 'flops' AND f.sequence = a.sequence
JOIN records AS q ON q.record = f.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'kept'
  AND a.calculator = 'activations'
  AND q.newest
  AND q.complete
  AND q.profile = 'recomputation'
ORDER BY a.activation_bytes DESC
