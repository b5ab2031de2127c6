-- title: Share of attention by sequence length
-- column sequence: Tokens per sequence .0
-- column whole: Training FLOP per token, whole attention [G] .1
-- column share: Attention share, whole [%] .1
-- column masked: Training FLOP per token, causal [G] .1
-- column share_masked: Attention share, causal [%] .1
-- note: Computed by the calculator from its formula, not measured: an 8B model with 32 layers and an attention 4,096 wide.
SELECT w.sequence AS sequence,
       w.model_flop / 1e9 AS whole,
       w.attention_share * 100 AS share,
       c.model_flop / 1e9 AS masked,
       c.attention_share * 100 AS share_masked
FROM calculators AS w
JOIN calculators AS c ON c.record = w.record AND c.sequence = w.sequence AND c.causal
JOIN records AS r ON r.record = w.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'lengths'
  AND w.calculator = 'flops'
  AND NOT w.causal
ORDER BY w.sequence
