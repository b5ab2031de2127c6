-- title: Useful share of the device by size of the micro-batch
-- column sequences: Sequences of a micro-batch .0
-- column useful: Useful [%] .1
-- column accelerator: Accelerator
-- note: Derived, not measured: sequences of 2,048 tokens, a product with 4,096 columns, tiles of 256 x 128 (assumed), one on each unit at a time.
-- plot: line
-- plot x: sequences
-- plot y: useful
-- plot by: accelerator
SELECT q.sequences AS sequences,
       100.0 * q.tiles / (c.units * ceil(q.tiles / c.units)) AS useful,
       c.accelerator AS accelerator
FROM (SELECT b.sequences, ceil(b.sequences * b.tokens / 256.0) * ceil(b.outer / 128.0) AS tiles
      FROM micro_batches AS b) AS q
JOIN accelerator_clocks AS c ON c.accelerator IN ('NVIDIA A100 SXM', 'NVIDIA H100 SXM', 'AMD MI300X')
ORDER BY c.accelerator, q.sequences
