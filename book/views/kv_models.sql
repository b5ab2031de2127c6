-- title: Weights and KV cache of published models
-- column model: Model
-- column attention: Attention
-- column weights: Weights, bf16 [GiB] .0
-- column weights8: Weights, fp8 [GiB] .0
-- column token: Cache of a token [KiB] .0
-- column sequence: Cache of 8,192 tokens [GiB] .2
-- column share: Tokens with as much cache as weights .0
-- column source: Source
-- note: Cache and, in the last column, weights in bf16. Derived from the shapes: layers times values of a token and layer times 2 bytes; values are twice the heads of keys and values times their size, or latent vector plus rotated key for MLA.
SELECT s.model AS model,
       s.attention AS attention,
       s.parameters * 2e9 / 1073741824.0 AS weights,
       s.parameters * 1e9 / 1073741824.0 AS weights8,
       s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 / 1024.0 AS token,
       s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0 AS sequence,
       s.parameters * 1e9 / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size)) AS share,
       '[1](' || s.source || ')' AS source
FROM model_shapes AS s
ORDER BY s.parameters, s.model
