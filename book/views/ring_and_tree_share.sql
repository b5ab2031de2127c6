-- title: Ring and double tree, share of the bandwidth limit
-- column size: Size [MB] .3
-- column ring_64: Ring, 64 ranks [%] .1
-- column tree_64: Tree, 64 ranks [%] .1
-- column ring_1024: Ring, 1,024 ranks [%] .1
-- column tree_1024: Tree, 1,024 ranks [%] .1
-- note: Computed by the calculator: 320 GBps, 5 µs per step. The limit is the time for 2 S at that bandwidth, without latency.
-- plot: line
-- plot x: size
-- plot y: ring_64, tree_64, ring_1024, tree_1024
-- plot log: x
SELECT a.payload_bytes / 1e6 AS size,
       100.0 * 2.0 * a.payload_bytes / a.bandwidth / a.collective_seconds AS ring_64,
       100.0 * 2.0 * b.payload_bytes / b.bandwidth / b.collective_seconds AS tree_64,
       100.0 * 2.0 * c.payload_bytes / c.bandwidth / c.collective_seconds AS ring_1024,
       100.0 * 2.0 * d.payload_bytes / d.bandwidth / d.collective_seconds AS tree_1024
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
ORDER BY a.payload_bytes;
