-- title: Cost of FLOPs and bytes at the lowest list price
-- column accelerator: Accelerator
-- column price: Rent per hour, from [USD] .2
-- column per_flop: 1e18 FLOP reached [USD] .2
-- column per_byte: 1e15 bytes read [USD] .2
-- column even_flop: Same FLOP cost as B200 at [USD] .2
-- column even_byte: Same byte cost as B200 at [USD] .2
-- note: Derived, lower bounds: FLOPs in BF16 at the best reported matmul, bytes at the specified bandwidth. The last two columns are the hourly price at which the accelerator matches a B200 at its lowest list price.
WITH rent AS (
    SELECT accelerator, min(1.0 * node / accelerators) AS price
    FROM accelerator_prices
    GROUP BY accelerator
),
best AS (
    SELECT accelerator, max(tflops) AS tflops
    FROM matmul_maxima
    WHERE dtype = 'bf16'
    GROUP BY accelerator
)
SELECT a.accelerator AS accelerator,
       r.price AS price,
       r.price / (x.tflops * 1e12 * 3600) * 1e18 AS per_flop,
       r.price / (m.bandwidth * 1e9 * 3600) * 1e15 AS per_byte,
       r0.price * x.tflops / x0.tflops AS even_flop,
       r0.price * m.bandwidth / m0.bandwidth AS even_byte
FROM accelerators a
JOIN best x ON x.accelerator = a.accelerator
JOIN accelerator_memory m ON m.accelerator = a.accelerator
JOIN rent r0 ON r0.accelerator = 'NVIDIA B200 SXM'
JOIN best x0 ON x0.accelerator = 'NVIDIA B200 SXM'
JOIN accelerator_memory m0 ON m0.accelerator = 'NVIDIA B200 SXM'
LEFT JOIN rent r ON r.accelerator = a.accelerator
WHERE a.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'NVIDIA H200 SXM', 'NVIDIA B200 SXM', 'NVIDIA B300 SXM', 'NVIDIA GB200', 'AMD MI300X', 'AMD MI355X')
ORDER BY even_flop DESC, even_byte DESC, a.accelerator;
