-- title: Backend and frontend networks of common nodes
-- column node: Node
-- column accelerator: Accelerators
-- column cards: Backend NICs
-- column total: Backend [GBps] .0
-- column each: Per accelerator [GBps] .1
-- column ratio: Inside/outside ratio .1
-- column frontend: Frontend [Gbps] .0
-- column transport: Transport
-- column source: Source
-- note: One direction. NICs: ports times Gbps. Backend and ratio: derived, the ratio as all intra-node links of one accelerator over its share of the NICs. A dash: not stated by the source.
SELECT n.provider || ' ' || n.node AS node,
       n.accelerators || ' ' || replace(replace(replace(replace(n.accelerator, 'NVIDIA ', ''), ' SXM', ''), 'Intel ', ''), 'AWS ', '') AS accelerator,
       n.nics || ' x ' || n.nic_rate AS cards,
       n.nics * n.nic_rate / 8.0 AS total,
       n.nics * n.nic_rate / 8.0 / n.accelerators AS each,
       l.one_way / (n.nics * n.nic_rate / 8.0 / n.accelerators) AS ratio,
       n.frontend,
       replace(n.transport, 'GPUDirect-', '') AS transport,
       '[1](' || n.source || ')' AS source
FROM node_networks n
JOIN accelerator_fabric l USING (accelerator)
ORDER BY each DESC, total DESC, n.provider, n.node;
