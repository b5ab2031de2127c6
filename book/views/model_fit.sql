-- title: Concurrent sequences of 8,192 tokens
-- column model: Model, weights
-- column a1: 1 H100, 80 GB .0
-- column a2: 2 H100 .0
-- column a4: 4 H100 .0
-- column a8: 8 H100 .0
-- column b1: 1 H200, 141 GB .0
-- column b8: 8 H200 .0
-- column c8: 8 B200, 180 GB .0
-- column d8: 8 MI355X, 288 GB .0
-- note: Sequences of 8,192 tokens, derived: (devices times memory times 0.9, less weights, less 2 GiB per device) over the bf16 KV cache, rounded down. The 0.9 and the 2 GiB for activations and buffers are assumed, labeled GB counted as GiB. A dash: the weights alone do not fit. gpt-oss-120b as published, experts in MXFP4.
WITH cases AS (
  SELECT s.model || ', bf16' AS name, s.parameters AS rank, 1 AS part, s.parameters * 2 / 1.073741824 AS weights, 0.0 AS copied, 0 AS whole,
         s.full_layers * 2 * s.kv_heads * s.head_size * 2 * 8192 / 1073741824.0 AS cache
  FROM model_shapes AS s
  WHERE s.model IN ('Llama 3.1 8B', 'Qwen3 32B', 'Llama 3.1 70B', 'Llama 3.1 405B')
  UNION ALL
  SELECT s.model || ', fp8' AS name, s.parameters AS rank, 2 AS part, s.parameters / 1.073741824 AS weights, 0.0 AS copied, 0 AS whole,
         s.full_layers * 2 * s.kv_heads * s.head_size * 2 * 8192 / 1073741824.0 AS cache
  FROM model_shapes AS s
  WHERE s.model IN ('Llama 3.1 8B', 'Qwen3 32B', 'Llama 3.1 70B', 'Llama 3.1 405B')
  UNION ALL
  SELECT s.model || ', MXFP4' AS name, s.parameters AS rank, 3 AS part, s.checkpoint AS weights, 0.0 AS copied, 0 AS whole,
         (s.full_layers * 8192 + (s.layers - s.full_layers) * s.window) * 2 * s.kv_heads * s.head_size * 2 / 1073741824.0 AS cache
  FROM model_shapes AS s
  WHERE s.model = 'gpt-oss-120b'
  UNION ALL
  SELECT s.model || ', fp8, tensor parallel' AS name, s.parameters AS rank, 4 AS part, s.parameters / 1.073741824 AS weights, 0.0 AS copied, 1 AS whole,
         s.full_layers * (s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0 AS cache
  FROM model_shapes AS s
  WHERE s.model = 'DeepSeek-V3'
  UNION ALL
  SELECT s.model || ', fp8, data-parallel attention' AS name, s.parameters AS rank, 5 AS part, s.parameters / 1.073741824 AS weights,
         s.layers * (s.hidden * (s.query_size + s.latent_size + s.rope_size) + s.heads * (s.query_size * (s.head_size + s.rope_size) + s.latent_size * 2 * s.head_size + s.head_size * s.hidden)) / 1073741824.0 AS copied,
         0 AS whole, s.full_layers * (s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0 AS cache
  FROM model_shapes AS s
  WHERE s.model = 'DeepSeek-V3'
)
SELECT c.name AS model,
       CASE WHEN 1 * (h.memory * 0.9 - 2) - c.weights > 0 THEN CAST((1 * (h.memory * 0.9 - 2) - c.weights) / c.cache AS INTEGER) END AS a1,
       CASE WHEN 2 * (h.memory * 0.9 - 2) - c.weights - 1 * c.copied > 0 THEN CAST((2 * (h.memory * 0.9 - 2) - c.weights - 1 * c.copied) / CASE WHEN c.whole = 1 THEN 2 ELSE 1 END / c.cache AS INTEGER) END AS a2,
       CASE WHEN 4 * (h.memory * 0.9 - 2) - c.weights - 3 * c.copied > 0 THEN CAST((4 * (h.memory * 0.9 - 2) - c.weights - 3 * c.copied) / CASE WHEN c.whole = 1 THEN 4 ELSE 1 END / c.cache AS INTEGER) END AS a4,
       CASE WHEN 8 * (h.memory * 0.9 - 2) - c.weights - 7 * c.copied > 0 THEN CAST((8 * (h.memory * 0.9 - 2) - c.weights - 7 * c.copied) / CASE WHEN c.whole = 1 THEN 8 ELSE 1 END / c.cache AS INTEGER) END AS a8,
       CASE WHEN 1 * (k.memory * 0.9 - 2) - c.weights > 0 THEN CAST((1 * (k.memory * 0.9 - 2) - c.weights) / c.cache AS INTEGER) END AS b1,
       CASE WHEN 8 * (k.memory * 0.9 - 2) - c.weights - 7 * c.copied > 0 THEN CAST((8 * (k.memory * 0.9 - 2) - c.weights - 7 * c.copied) / CASE WHEN c.whole = 1 THEN 8 ELSE 1 END / c.cache AS INTEGER) END AS b8,
       CASE WHEN 8 * (b.memory * 0.9 - 2) - c.weights - 7 * c.copied > 0 THEN CAST((8 * (b.memory * 0.9 - 2) - c.weights - 7 * c.copied) / CASE WHEN c.whole = 1 THEN 8 ELSE 1 END / c.cache AS INTEGER) END AS c8,
       CASE WHEN 8 * (m.memory * 0.9 - 2) - c.weights - 7 * c.copied > 0 THEN CAST((8 * (m.memory * 0.9 - 2) - c.weights - 7 * c.copied) / CASE WHEN c.whole = 1 THEN 8 ELSE 1 END / c.cache AS INTEGER) END AS d8
FROM cases AS c
JOIN accelerator_memory AS h ON h.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_memory AS k ON k.accelerator = 'NVIDIA H200 SXM'
JOIN accelerator_memory AS b ON b.accelerator = 'NVIDIA B200 SXM'
JOIN accelerator_memory AS m ON m.accelerator = 'AMD MI355X'
ORDER BY c.rank, c.part
