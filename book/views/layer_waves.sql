-- title: Tiles and waves of the products of a layer
-- column product: Product
-- column tiles: Tiles .0
-- column waves_a: A100, waves .2
-- column useful_a: Useful, A100 [%] .0
-- column waves_h: H100, waves .2
-- column useful_h: Useful, H100 [%] .0
-- column waves_m: MI300X, waves .2
-- column useful_m: Useful, MI300X [%] .0
-- note: Derived, not measured: 8,192 tokens, one tile of 256 x 128 (assumed) on each of the 108, 132 and 304 units at a time. Waves are shown before they are rounded up. Real libraries choose tiles for each shape and device.
SELECT q.operation AS product,
       q.tiles AS tiles,
       q.tiles / a.units AS waves_a,
       100.0 * q.tiles / (a.units * ceil(q.tiles / a.units)) AS useful_a,
       q.tiles / h.units AS waves_h,
       100.0 * q.tiles / (h.units * ceil(q.tiles / h.units)) AS useful_h,
       q.tiles / m.units AS waves_m,
       100.0 * q.tiles / (m.units * ceil(q.tiles / m.units)) AS useful_m
FROM (SELECT o.operation, o.outer, o.inner, ceil(8192 / 256.0) * ceil(o.outer / 128.0) AS tiles
      FROM layer_operations AS o
      WHERE o.outer > 0) AS q
JOIN accelerator_clocks AS a ON a.accelerator = 'NVIDIA A100 SXM'
JOIN accelerator_clocks AS h ON h.accelerator = 'NVIDIA H100 SXM'
JOIN accelerator_clocks AS m ON m.accelerator = 'AMD MI300X'
ORDER BY q.tiles, q.inner
