-- title: What a file drags along
-- column file: File
-- column tensors: Tensors .0
-- column storages: Storages .0
-- column too_large: Too large .0
-- column before: Before [KiB] .1
-- column dragged: Dragged along [KiB] .1
-- column after: After [KiB] .1
-- column verdict: Verdict
-- note: Counted in the tool's demonstration: a file with slices of large buffers, and one without.
SELECT s.file AS file,
       s.tensors AS tensors,
       s.storages AS storages,
       s.too_large AS too_large,
       s.source_bytes / 1024.0 AS before,
       s.dragged_bytes / 1024.0 AS dragged,
       s.target_bytes / 1024.0 AS after,
       s.verdict AS verdict
FROM checkpoint_shrink AS s
JOIN records AS r ON r.record = s.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY s.file
