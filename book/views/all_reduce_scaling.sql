-- title: All-reduce on nodes of eight H100
-- column nodes: Nodes
-- column s64: 64 MiB [GBps] .0
-- column s256: 256 MiB [GBps] .0
-- column s1024: 1 GiB [GBps] .0
-- column s4096: 4 GiB [GBps] .0
-- note: Bus bandwidth, reported, read from the paper's plot to about 5 GBps. Eight 400 Gbps NICs per node, so the bound is 400.
-- plot: line
-- plot x: nodes
-- plot y: s64, s256, s1024, s4096
-- plot log: x
SELECT nodes,
       max(CASE size WHEN 64 THEN busbw END) AS s64,
       max(CASE size WHEN 256 THEN busbw END) AS s256,
       max(CASE size WHEN 1024 THEN busbw END) AS s1024,
       max(CASE size WHEN 4096 THEN busbw END) AS s4096
FROM all_reduce_scaling
GROUP BY nodes
ORDER BY nodes;
