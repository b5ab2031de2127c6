-- title: All-reduce bandwidth of NVIDIA systems
-- column system: System
-- column link: Narrowest link [GBps] .0
-- column busbw: busbw [GBps] .0
-- column share: Share of link [%] .0
-- column sharp: busbw with SHARP [GBps] .0
-- note: NVIDIA's runs of nccl-tests with large payloads (vendor). Narrowest link: one direction, per GPU inside a node, all NICs of a node between nodes. Share: derived.
SELECT system, link, busbw, 100.0 * busbw / link AS share, sharp
FROM all_reduce_targets
ORDER BY gpus, busbw, system;
