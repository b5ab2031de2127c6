-- title: Lines of several processes in one pipe
-- column way: Way
-- column bytes: Line [B] .0
-- column processes: Processes .0
-- column lines: Lines .0
-- column torn: Torn .0
-- column verdict: Verdict
-- note: A small trial run on two CPU cores. How many lines are torn changes from run to run; that none is torn behind the lock does not.
SELECT p.way AS way,
       p.line_bytes AS bytes,
       p.processes AS processes,
       p.lines AS lines,
       p.lines_torn AS torn,
       p.verdict AS verdict
FROM printflock AS p
JOIN records AS r ON r.record = p.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY p.lock, p.line_bytes, p.way DESC, r.record
