-- title: Memory of inference chips, and how many hold 70B in fp8
-- column chip: Chip
-- column vendor: Vendor
-- column on_chip: SRAM [MB] .0
-- column memory: HBM [GB] .1
-- column far_memory: DDR [GB] .0
-- column bandwidth: Bandwidth [GBps] .0
-- column chips: Chips for 70B in fp8 .0
-- column sold_as: Sold as
-- column state: State
-- column source: Source
-- note: Vendors' figures. Bandwidth of HBM, or of SRAM without HBM. Chips: derived, 70 GB over HBM or SRAM, rounded up, without room for a KV cache. A dash: none, or no source found.
SELECT c.chip AS chip, c.vendor AS vendor, c.on_chip AS on_chip, c.memory AS memory, c.far_memory AS far_memory, c.bandwidth AS bandwidth,
       CASE WHEN CAST(70.0 / coalesce(c.memory, c.on_chip / 1000.0) AS INTEGER) < 70.0 / coalesce(c.memory, c.on_chip / 1000.0)
            THEN CAST(70.0 / coalesce(c.memory, c.on_chip / 1000.0) AS INTEGER) + 1
            ELSE CAST(70.0 / coalesce(c.memory, c.on_chip / 1000.0) AS INTEGER) END AS chips,
       c.sold_as AS sold_as, c.state AS state, '[' || c.date || '](' || c.source || ')' AS source
FROM inference_chips AS c
ORDER BY chips DESC, c.chip
