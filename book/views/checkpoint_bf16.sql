-- title: A checkpoint before and after
-- column file: File
-- column tensors: Tensors .0
-- column converted: Converted .0
-- column kept: Kept .0
-- column before: Before [KiB] .1
-- column after: After [KiB] .1
-- column infinite: Became infinite .0
-- column verdict: Verdict
-- note: Counted in the tool's demonstration: two shards of 1 MiB and a small pickle with two names for one weight. Each file was read back and compared with its source bit by bit.
SELECT c.file AS file,
       c.tensors AS tensors,
       c.converted AS converted,
       c.kept AS kept,
       c.source_bytes / 1024.0 AS before,
       c.target_bytes / 1024.0 AS after,
       c.became_infinite AS infinite,
       c.verdict AS verdict
FROM checkpoint_to_bf16 AS c
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY c.file
