-- title: KV cache by kind of attention
-- column attention: Attention
-- column values: Values per token and layer .0
-- column token: Per token, bf16 [KiB] .0
-- column share: Relative to MHA [%] .1
-- column short: 8,192 tokens, bf16 [GiB] .2
-- column short8: 8,192 tokens, fp8 [GiB] .2
-- column long: 131,072 tokens, bf16 [GiB] .2
-- note: Computed: 80 layers, 64 heads of 128, 8 groups for GQA, a latent vector of 512 and a rotated key of 64 for MLA. One sequence.
SELECT upper(a.attention) AS attention,
       a.values_per_layer AS "values",
       a.token_bytes / 1024.0 AS token,
       100.0 * a.token_bytes / m.token_bytes AS share,
       a.sequence_bytes / 1073741824.0 AS short,
       e.sequence_bytes / 1073741824.0 AS short8,
       l.sequence_bytes / 1073741824.0 AS long
FROM calculators AS a
JOIN calculators AS e ON e.record = a.record AND e.attention = a.attention AND e.tokens = 8192 AND e.value_bytes = 1
JOIN calculators AS l ON l.record = a.record AND l.attention = a.attention AND l.tokens = 131072 AND l.value_bytes = 2
JOIN calculators AS m ON m.record = a.record AND m.attention = 'mha' AND m.tokens = 8192 AND m.value_bytes = 2
JOIN records AS r ON r.record = a.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'kv'
  AND a.calculator = 'kv-cache'
  AND a.tokens = 8192
  AND a.value_bytes = 2
ORDER BY a.token_bytes DESC;
