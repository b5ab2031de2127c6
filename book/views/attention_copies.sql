-- title: What a layer keeps, by length of the sequence
-- column sequence: Tokens of a sequence .0
-- column eager: Eager, copies .2
-- column sdpa: One kernel, copies .2
-- column eager_mib: Eager [MiB] .0
-- column sdpa_mib: One kernel [MiB] .0
-- note: Measured on a CPU: bytes that autograd saves, in copies of the hidden state. A Llama layer of hidden size 512 with 8 heads, two sequences, bfloat16, no dropout.
-- plot: line
-- plot x: sequence
-- plot y: eager, sdpa
SELECT e.sequence AS sequence,
       e.copies AS eager,
       s.copies AS sdpa,
       e.saved_bytes / 1048576.0 AS eager_mib,
       s.saved_bytes / 1048576.0 AS sdpa_mib
FROM activation_memory AS e
JOIN activation_memory AS s ON s.record = e.record AND s.attention = 'sdpa' AND s.recompute = e.recompute
JOIN records AS r ON r.record = e.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND e.attention = 'eager'
  AND e.recompute = 'none'
  AND e.norm = 'rms'
  AND e.hidden = 512
  AND e.batch = 2
  AND e.sequence >= 512
ORDER BY e.sequence
