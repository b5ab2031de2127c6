-- title: Ring and double tree all-reduce time
-- column size: Size [MB] .3
-- column ring_64: Ring, 64 ranks [ms] .3
-- column tree_64: Tree, 64 ranks [ms] .3
-- column ring_1024: Ring, 1,024 ranks [ms] .3
-- column tree_1024: Tree, 1,024 ranks [ms] .3
-- note: Computed by the calculator: 320 GBps, 5 µs per step. The ring takes 2 (n - 1) steps, the double tree 2 log n.
SELECT a.payload_bytes / 1e6 AS size,
       a.collective_seconds * 1e3 AS ring_64,
       b.collective_seconds * 1e3 AS tree_64,
       c.collective_seconds * 1e3 AS ring_1024,
       d.collective_seconds * 1e3 AS tree_1024
FROM calculators AS a
JOIN calculators AS b ON b.record = a.record AND b.payload_bytes = a.payload_bytes AND b.algorithm = 'double-tree' AND b.ranks = 64
JOIN calculators AS c ON c.record = a.record AND c.payload_bytes = a.payload_bytes AND c.algorithm = 'ring' AND c.ranks = 1024
JOIN calculators AS d ON d.record = a.record AND d.payload_bytes = a.payload_bytes AND d.algorithm = 'double-tree' AND d.ranks = 1024
JOIN records AS r ON r.record = a.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'algorithms'
  AND a.calculator = 'all-reduce'
  AND a.algorithm = 'ring'
  AND a.ranks = 64
  AND a.payload_bytes IN (1e6, 1e8, 1e10)
ORDER BY a.payload_bytes;
