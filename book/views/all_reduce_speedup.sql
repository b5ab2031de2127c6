-- title: All-reduce against NCCL's ring, by size
-- column size: Size [KiB]
-- column ring: Ring [µs]
-- column tree: Tree .2
-- column hierarchical: MSCCL hierarchical .2
-- column pipeline: MSCCL pipeline .2
-- column allpair: MSCCL allpair .2
-- column allpair_in_place: MSCCL allpair, in place .2
-- note: Ring: reported, mean time of one all-reduce of floats over 8 ranks of one node, out of place. The others: derived, time of the ring over time of the algorithm at the same size and placement; above 1 is faster than the ring. All out of place but the last column, which is held against the ring in place. One run each, 8 June 2023.
SELECT r.size / 1024.0 AS size,
       r.time AS ring,
       r.time / t.time AS tree,
       r.time / h.time AS hierarchical,
       r.time / p.time AS pipeline,
       r.time / a.time AS allpair,
       i.time / b.time AS allpair_in_place
FROM collective_algorithms r
JOIN collective_algorithms t ON t.size = r.size AND t.placement = 'out of place' AND t.algorithm = 'tree'
JOIN collective_algorithms h ON h.size = r.size AND h.placement = 'out of place' AND h.algorithm = 'msccl hierarchical'
JOIN collective_algorithms p ON p.size = r.size AND p.placement = 'out of place' AND p.algorithm = 'msccl pipeline'
JOIN collective_algorithms a ON a.size = r.size AND a.placement = 'out of place' AND a.algorithm = 'msccl allpair'
JOIN collective_algorithms i ON i.size = r.size AND i.placement = 'in place' AND i.algorithm = 'ring'
JOIN collective_algorithms b ON b.size = r.size AND b.placement = 'in place' AND b.algorithm = 'msccl allpair'
WHERE r.algorithm = 'ring' AND r.placement = 'out of place'
ORDER BY r.size;
