-- title: Who goes first, and who waits
-- column scope: Scope
-- column rank: Rank .0
-- column first: Goes first: rank .0
-- column waited: Waited [s] .2
-- column verdict: Verdict
-- column evidence: How it is known
-- note: Measured on two CPU cores: two ranks of one node and a folder that both see; the work is a sleep of 0.2 s.
SELECT m.scope AS scope,
       m.rank AS rank,
       m.first_rank AS first,
       m.waited_seconds AS waited,
       m.verdict AS verdict,
       m.evidence AS evidence
FROM main_process_first AS m
JOIN records AS r ON r.record = m.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY m.scope, m.rank
