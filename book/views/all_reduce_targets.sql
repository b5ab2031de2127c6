-- title: What an all-reduce should reach, by generation
-- column system: System
-- column link: Narrowest link [GBps] .0
-- column busbw: busbw [GBps] .0
-- column share: Of the link [%] .0
-- column sharp: busbw with SHARP [GBps] .0
-- note: NVIDIA's own runs of nccl-tests, large payloads (vendor). Narrowest link: one direction, of one GPU inside a node, of all NICs of a node between nodes. Share: derived.
SELECT system, link, busbw, 100.0 * busbw / link AS share, sharp
FROM all_reduce_targets
ORDER BY gpus, busbw, system;
