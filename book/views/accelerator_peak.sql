-- title: Peak BF16 throughput, worked out and as specified
-- column accelerator: Accelerator
-- column clock: Clock [MHz] .0
-- column units: Units
-- column flop_per_clock: Per unit and clock [FLOP] .0
-- column computed: Worked out [TFLOPS] .1
-- column specified: Specified [TFLOPS] .0
-- column source: Source
-- note: Worked out: clock times units times operations per clock. SM, CU and MME are the vendors' words for the unit that holds the matrix engines.
SELECT c.accelerator,
       c.clock,
       c.units || ' ' || c.unit AS units,
       c.flop_per_clock,
       c.clock * 1e6 * c.units * c.flop_per_clock / 1e12 AS computed,
       f.tflops AS specified,
       '[1](' || c.source || ')' AS source
FROM accelerator_clocks c
JOIN accelerator_tflops f ON f.accelerator = c.accelerator AND f.dtype = 'bf16'
JOIN accelerators a ON a.accelerator = c.accelerator AND a.compared = 'yes'
WHERE c.flop_per_clock IS NOT NULL
ORDER BY specified DESC, c.accelerator;
