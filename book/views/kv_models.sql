-- title: KV cache per token and per sequence, by model
-- column model: Model
-- column attention: Attention
-- column token: Per token [KiB] .0
-- column short: 8,192 tokens [GiB] .2
-- column long: 131,072 tokens [GiB] .1
-- column formula: 131,072 tokens, plain formula [GiB] .1
-- column source: Source
-- note: Derived from the shapes, bf16, one sequence. Per token: the layers with full attention. The plain formula counts all layers as full. Not counted: the state of linear layers, and the indexer's keys of sparse attention.
SELECT s.model AS model,
       s.attention AS attention,
       s.full_layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 / 1024.0 AS token,
       (s.full_layers * 8192.0 + (s.layers - s.full_layers) * coalesce(s.window, 0)) * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 / 1073741824.0 AS short,
       (s.full_layers * 131072.0 + (s.layers - s.full_layers) * coalesce(s.window, 0)) * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 / 1073741824.0 AS long,
       s.layers * 131072.0 * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 / 1073741824.0 AS formula,
       '[1](' || s.source || ')' AS source
FROM model_shapes AS s
ORDER BY s.parameters, s.model
