-- title: KV cache of one sequence by its length
-- column tokens: Tokens .0
-- column cache: KV cache of one sequence [GiB] .2
-- column attention: Attention
-- note: The figures of the table by kind of attention: computed, bf16.
-- plot: line
-- plot x: tokens
-- plot y: cache
-- plot by: attention
-- plot log: x, y
SELECT a.tokens AS tokens,
       a.sequence_bytes / 1073741824.0 AS cache,
       upper(a.attention) AS attention
FROM calculators AS a
JOIN records AS r ON r.record = a.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'kv'
  AND a.calculator = 'kv-cache'
  AND a.value_bytes = 2
ORDER BY a.values_per_layer DESC, a.tokens;
