-- title: Peak, memory, links, power and rent of one accelerator
-- column accelerator: Accelerator
-- column bf16: BF16 [TFLOPS] .0
-- column fp8: FP8 [TFLOPS] .0
-- column memory: Memory [GB] .0
-- column bandwidth: Bandwidth [GBps] .0
-- column link: Link, one way [GBps] .0
-- column joins: Accelerators linked
-- column power: Power [W] .0
-- column low: Rent per hour, from [USD] .2
-- column high: up to [USD] .2
-- column sources: Sources
-- note: Vendors' figures, read in November 2026: dense peaks, memory as labeled, link bandwidth as the sum over all links of one accelerator in one direction (for Trainium2, inside one instance). A dash: not published, or no list price found.
-- note: Rent: lowest and highest on-demand list price per accelerator-hour, at up to five providers, read between 19 August and 8 October 2026. Large clouds list more, contracts cost less.
WITH rent AS (
    SELECT accelerator, min(1.0 * node / accelerators) AS low, max(1.0 * node / accelerators) AS high
    FROM accelerator_prices
    GROUP BY accelerator
)
SELECT a.accelerator || CASE a.status WHEN 'announced' THEN ' (announced)' ELSE '' END AS accelerator,
       f.tflops AS bf16,
       g.tflops AS fp8,
       m.memory AS memory,
       m.bandwidth AS bandwidth,
       l.one_way AS link,
       l.domain AS joins,
       p.power AS power,
       r.low AS low,
       r.high AS high,
       '[1](' || a.source || ')' ||
       CASE WHEN p.unconfirmed = 'yes' THEN ' power unconfirmed' ELSE '' END AS sources
FROM accelerators a
JOIN accelerator_tflops f ON f.accelerator = a.accelerator AND f.dtype = 'bf16'
LEFT JOIN accelerator_tflops g ON g.accelerator = a.accelerator AND g.dtype = 'fp8'
JOIN accelerator_memory m ON m.accelerator = a.accelerator
LEFT JOIN accelerator_fabric l ON l.accelerator = a.accelerator
LEFT JOIN accelerator_power p ON p.accelerator = a.accelerator
LEFT JOIN rent r ON r.accelerator = a.accelerator
WHERE a.compared = 'yes'
ORDER BY f.tflops DESC, m.bandwidth DESC, m.memory DESC, a.accelerator;
