-- title: Tokens that hide the traffic of a step
-- column node: Network of a node, Gbps .0
-- column tokens: Tokens of each rank .0
-- column method: Method
-- note: The same figures as in the table of what a network can hide: computed, not measured.
-- plot: line
-- plot x: node
-- plot y: tokens
-- plot by: method
-- plot log: x, y
SELECT c.bandwidth * 8 / 0.8 / 1e9 AS node,
       c.traffic_seconds * 400e12 / (6 * c.parameters) AS tokens,
       CASE c.zero_stage WHEN 0 THEN 'DDP' ELSE 'ZeRO-3' END AS method
FROM calculators AS c
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'traffic'
  AND c.calculator = 'zero-traffic'
ORDER BY c.zero_stage, c.bandwidth;
