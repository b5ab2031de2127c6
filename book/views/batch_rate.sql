-- title: The rate of a product by its number of rows
-- column rows: Rows (tokens) .0
-- column time: Median time [µs] .0
-- column spread: IQR [%] .0
-- column rate: Rate at the median [GFLOPS] .1
-- column bytes: FLOP per byte .1
-- note: Measured on one thread of two CPU cores that other programs were using too: rows x 512 times 512 x 512, float32. IQR: interquartile range, in percent of the median. FLOP per byte: derived, each matrix read or written once.
-- plot: line
-- plot x: rows
-- plot y: rate
-- plot log: x, y
SELECT m.m AS rows,
       m.seconds_median * 1e6 AS time,
       m.spread * 100 AS spread,
       m.flops_per_second_median / 1e9 AS rate,
       2.0 * m.m * m.n * m.k / (4.0 * (m.m * m.k + m.k * m.n + m.m * m.n)) AS bytes
FROM mamf_finder AS m
JOIN records AS r ON r.record = m.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND m.dtype = 'float32'
  AND m.n = 512
  AND m.k = 512
  AND m.m <= 128
ORDER BY m.m
