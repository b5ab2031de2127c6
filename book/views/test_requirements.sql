-- title: Which tests can run on a machine without a GPU
-- column name: Requirement
-- column verdict: Verdict
-- column why: Why
-- column seconds: Took [s] .2
-- note: A small trial run on two CPU cores.
SELECT t.name AS name,
       t.verdict AS verdict,
       t.why AS why,
       t.seconds AS seconds
FROM testing_utils AS t
JOIN records AS r ON r.record = t.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY CASE t.verdict WHEN 'runs' THEN 1 WHEN 'skipped' THEN 2 ELSE 3 END, t.name, r.record
