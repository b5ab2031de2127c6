-- title: Where the ranks of a hanging job are
-- column ranks: Ranks
-- column count: How many .0
-- column place: Call site
-- column verdict: Verdict
-- note: The tool's demonstration: four processes, one of which was made to stop elsewhere. The tool also prints the line number.
SELECT h.ranks AS ranks,
       h.count AS count,
       substr(h.place, 1, instr(h.place, ':') - 1) AS place,
       h.verdict AS verdict
FROM hang_watchdog AS h
JOIN records AS r ON r.record = h.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'demo'
ORDER BY h.count, h.ranks
