-- title: Power of whole nodes and trays
-- column node: Node or tray
-- column gpus: Accelerators .0
-- column node_power: Maximum [kW] .1
-- column each: Per accelerator [W] .0
-- column own: Accelerator alone [W] .0
-- column share: Rest [%] .0
-- column source: Source
-- note: Maximum: vendor. Per accelerator and rest: derived. The rest is CPUs, memory, NICs, drives, fans and losses.
SELECT n.node, n.gpus, n.node_power,
       1000 * n.node_power / n.gpus AS each,
       p.power AS own,
       100 * (1 - p.power * n.gpus / (1000 * n.node_power)) AS share,
       '[1](' || n.source || ')' AS source
FROM node_power n
JOIN accelerator_power p USING (accelerator)
ORDER BY n.node;
