-- title: Cut, unpacked, edited, packed again
-- column kind: Kind
-- column records: Records .0
-- column as_before: As before .0
-- column edited: Edited .0
-- column size: Folders [kB] .1
-- column verdict: Verdict
-- note: A small trial run on a CPU: one record was edited and one folder removed by hand, as it were; all others had to stay as they were.
SELECT d.kind AS kind,
       d.records AS records,
       d.records_as_before AS as_before,
       d.records_edited AS edited,
       d.bytes / 1e3 AS size,
       d.verdict AS verdict
FROM make_tiny_dataset AS d
JOIN records AS r ON r.record = d.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY d.bytes, d.kind, r.record
