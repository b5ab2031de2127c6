-- title: Sequences of 8,192 tokens that fit beside the weights
-- column model: Model, weights
-- column a1: 1 H100, 80 GB .0
-- column a2: 2 H100 .0
-- column a4: 4 H100 .0
-- column a8: 8 H100 .0
-- column b1: 1 H200, 141 GB .0
-- column b8: 8 H200 .0
-- column c1: 1 MI300X, 192 GB .0
-- column c8: 8 MI300X .0
-- note: Derived: (devices times memory times 0.9, less weights, less 2 GiB a device) over the bf16 KV cache of 8,192 tokens, rounded down. The 0.9 and the 2 GiB for activations and buffers are assumed; labelled GB are counted as GiB. A dash: the weights alone do not fit. MLA is counted once for each device, as tensor parallelism keeps it; the others are cut by heads.
SELECT s.model || ', ' || CASE p.bytes WHEN 2 THEN 'bf16' ELSE 'fp8' END AS model,
       CASE WHEN 1 * (h.memory * 0.9 - 2) > s.parameters * p.bytes / 1.073741824
            THEN CAST((1 * (h.memory * 0.9 - 2) - s.parameters * p.bytes / 1.073741824) / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0) AS INTEGER) END AS a1,
       CASE WHEN 2 * (h.memory * 0.9 - 2) > s.parameters * p.bytes / 1.073741824
            THEN CAST((2 * (h.memory * 0.9 - 2) - s.parameters * p.bytes / 1.073741824) / CASE WHEN s.kv_heads IS NULL THEN 2 ELSE 1 END / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0) AS INTEGER) END AS a2,
       CASE WHEN 4 * (h.memory * 0.9 - 2) > s.parameters * p.bytes / 1.073741824
            THEN CAST((4 * (h.memory * 0.9 - 2) - s.parameters * p.bytes / 1.073741824) / CASE WHEN s.kv_heads IS NULL THEN 4 ELSE 1 END / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0) AS INTEGER) END AS a4,
       CASE WHEN 8 * (h.memory * 0.9 - 2) > s.parameters * p.bytes / 1.073741824
            THEN CAST((8 * (h.memory * 0.9 - 2) - s.parameters * p.bytes / 1.073741824) / CASE WHEN s.kv_heads IS NULL THEN 8 ELSE 1 END / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0) AS INTEGER) END AS a8,
       CASE WHEN 1 * (k.memory * 0.9 - 2) > s.parameters * p.bytes / 1.073741824
            THEN CAST((1 * (k.memory * 0.9 - 2) - s.parameters * p.bytes / 1.073741824) / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0) AS INTEGER) END AS b1,
       CASE WHEN 8 * (k.memory * 0.9 - 2) > s.parameters * p.bytes / 1.073741824
            THEN CAST((8 * (k.memory * 0.9 - 2) - s.parameters * p.bytes / 1.073741824) / CASE WHEN s.kv_heads IS NULL THEN 8 ELSE 1 END / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0) AS INTEGER) END AS b8,
       CASE WHEN 1 * (m.memory * 0.9 - 2) > s.parameters * p.bytes / 1.073741824
            THEN CAST((1 * (m.memory * 0.9 - 2) - s.parameters * p.bytes / 1.073741824) / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0) AS INTEGER) END AS c1,
       CASE WHEN 8 * (m.memory * 0.9 - 2) > s.parameters * p.bytes / 1.073741824
            THEN CAST((8 * (m.memory * 0.9 - 2) - s.parameters * p.bytes / 1.073741824) / CASE WHEN s.kv_heads IS NULL THEN 8 ELSE 1 END / (s.layers * coalesce(2 * s.kv_heads * s.head_size, s.latent_size + s.rope_size) * 2 * 8192 / 1073741824.0) AS INTEGER) END AS c8
FROM model_shapes AS s
CROSS JOIN (SELECT 2 AS bytes UNION ALL SELECT 1 AS bytes) AS p
JOIN accelerator_memory AS h ON h.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_memory AS k ON k.accelerator = 'NVIDIA H200 SXM'
JOIN accelerator_memory AS m ON m.accelerator = 'AMD MI300X'
WHERE s.model NOT IN ('Falcon 7B', 'Llama 2 7B')
ORDER BY s.parameters, p.bytes DESC
