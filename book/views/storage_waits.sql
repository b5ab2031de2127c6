-- title: Latency of the first byte
-- column store: Store
-- column first: First byte [ms]
-- column one_by_one: 4,000 reads in turn [s] .0
-- column source: Source
-- note: As the vendors state it: "about" is typical, "below" an upper bound. Reads in turn: derived, 4,000 times the larger number, one wait per file and no transfer time.
SELECT store,
       CASE WHEN lowest IS NULL THEN meaning || ' ' || highest ELSE meaning || ' ' || cast(lowest AS integer) || ' to ' || cast(highest AS integer) END AS first,
       highest * 4000 / 1000 AS one_by_one,
       '[1](' || source || ')' AS source
FROM storage_waits
ORDER BY highest, store;
