-- title: Activation memory of one Llama layer
-- column variant: Attention, checkpointing, autocast
-- column kept: Kept [KiB] .0
-- column copies: Copies .2
-- column weights: Cast weights [KiB] .0
-- note: Measured on a CPU: bytes that autograd saves. RMSNorm, rotary positions, grouped-query attention, SwiGLU; hidden size 512, 8 heads, 2 key-value heads, MLP 1,792 wide, one sequence of 256 tokens, bfloat16 (with autocast: weights in float32).
SELECT m.attention || ', ' || m.recompute || ', ' || CASE WHEN m.autocast THEN 'on' ELSE 'off' END AS variant,
       m.saved_bytes / 1024.0 AS kept,
       m.copies AS copies,
       m.weight_copy_bytes / 1024.0 AS weights
FROM activation_memory AS m
JOIN records AS r ON r.record = m.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'demo'
  AND m.norm = 'rms'
  AND m.hidden = 512
  AND m.sequence = 256
  AND (m.autocast = 0 OR m.attention = 'sdpa')
  AND NOT (m.attention = 'eager' AND m.recompute <> 'none')
  AND NOT (m.autocast AND m.recompute = 'selective')
ORDER BY m.autocast, m.copies DESC, m.attention, m.recompute;
