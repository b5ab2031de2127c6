-- title: How long the first byte takes
-- column store: Store
-- column first: First byte [ms]
-- column one_by_one: 4,000 reads one after the other [s] .0
-- column source: Source
-- note: As the vendor states it: "about" is typical, "below" an upper bound, so compare like with like. One after the other: derived, 4,000 times the larger figure, a wait per file and no bytes.
SELECT store,
       CASE WHEN lowest IS NULL THEN meaning || ' ' || highest ELSE meaning || ' ' || cast(lowest AS integer) || ' to ' || cast(highest AS integer) END AS first,
       highest * 4000 / 1000 AS one_by_one,
       '[1](' || source || ')' AS source
FROM storage_waits
ORDER BY highest, store;
