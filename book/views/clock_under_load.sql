-- title: How much of the gap to peak is clock, and how much is software
-- column what: Accelerator and type
-- column specified_clock: Specified clock [MHz] .0
-- column clock: Clock during the run [MHz] .0
-- column peak: Peak [TFLOPS] .0
-- column peak_at_clock: Peak at that clock [TFLOPS] .0
-- column reached: Reached [TFLOPS] .0
-- column software_share: Of peak at that clock [%] .1
-- note: Clock during the run and throughput reached: measured by AMD (28 Feb 2025). The rest is derived.
SELECT x.accelerator || ', ' || upper(x.dtype) AS what,
       c.clock AS specified_clock,
       x.clock AS clock,
       f.tflops AS peak,
       1.0 * f.tflops * x.clock / c.clock AS peak_at_clock,
       x.tflops AS reached,
       100.0 * x.tflops / (1.0 * f.tflops * x.clock / c.clock) AS software_share
FROM matmul_maxima x
JOIN accelerator_clocks c USING (accelerator)
JOIN accelerator_tflops f ON f.accelerator = x.accelerator AND f.dtype = x.dtype
WHERE x.clock IS NOT NULL
ORDER BY x.accelerator, x.dtype;
