-- title: Instinct GPUs compared
-- column accelerator: Accelerator
-- column gfx: Architecture
-- column cus: CUs .0
-- column lds: LDS per CU [KiB] .0
-- column fp8: FP8 type
-- column tflops: Peak FP8 [TFLOPS] .0
-- column memory: Memory [GB] .0
-- column peer: xGMI to one peer [GBps] .1
-- column power: Board power [W] .0
-- column source: Source
-- note: Vendor, dense peaks. Memory, links and power as in the accelerators chapter.
SELECT a.accelerator, a.gfx, a.cus, a.lds, a.fp8,
       f.tflops, m.memory, l.one_way_peer AS peer, p.power,
       '[1](' || a.source || ')' AS source
FROM amd_parts a
JOIN accelerator_tflops f ON f.accelerator = a.accelerator AND f.dtype = 'fp8'
JOIN accelerator_memory m ON m.accelerator = a.accelerator
JOIN accelerator_fabric l ON l.accelerator = a.accelerator
JOIN accelerator_power p ON p.accelerator = a.accelerator
ORDER BY f.tflops, m.memory, a.accelerator
