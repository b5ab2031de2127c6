-- title: Where the ranks of a job stand that hangs
-- column ranks: Ranks
-- column count: How many .0
-- column place: Call site
-- column verdict: Verdict
-- note: The tool's demonstration on two CPU cores: four processes, of which one was made to stay somewhere else.
SELECT h.ranks AS ranks,
       h.count AS count,
       h.place AS place,
       h.verdict AS verdict
FROM hang_watchdog AS h
JOIN records AS r ON r.record = h.record
WHERE r.newest
  AND r.complete
  AND r.profile = 'demo'
ORDER BY h.count, h.ranks
