-- title: On-chip memory
-- column accelerator: Accelerator
-- column local: Local, one unit [KiB] .0
-- column units: Units
-- column local_total: Local, all units [MiB] .1
-- column l2: L2 [MiB] .0
-- column last_level: Last level [MiB] .0
-- column source: Source
-- note: Local: L1 and shared memory of one SM; vector L1 plus LDS of one CU; SRAM of one NeuronCore. All units: derived, and not one cache: a unit sees its own part only.
-- note: Gaudi 3: SRAM, set up as four L2 slices or as one L3.
SELECT accelerator,
       local,
       units || ' ' || unit AS units,
       local * units / 1024.0 AS local_total,
       l2,
       last_level,
       '[1](' || source || ')' AS source
FROM accelerator_caches
WHERE accelerator <> 'Intel Gaudi 2'
ORDER BY coalesce(l2, 0) + coalesce(last_level, 0) DESC, local * accelerator_caches.units DESC, accelerator;
