-- title: Network cards of nodes
-- column node: Node
-- column accelerator: Accelerators
-- column cards: Backend cards
-- column total: Backend [GBps] .0
-- column each: Each accelerator [GBps] .1
-- column frontend: Frontend [Gbps] .0
-- column transport: Speaks
-- column source: Source
-- note: One direction. Cards: ports times Gbps. Backend: derived, that over eight bits a byte, and over the accelerators of the node. Rows whose source is the Open Book are reported, all others are the vendors'. A dash: the source does not say, or in a unit that cannot be right.
SELECT n.provider || ' ' || n.node AS node,
       n.accelerators || ' ' || replace(replace(replace(replace(n.accelerator, 'NVIDIA ', ''), ' SXM', ''), 'Intel ', ''), 'AWS ', '') AS accelerator,
       n.nics || ' x ' || n.nic_rate AS cards,
       n.nics * n.nic_rate / 8.0 AS total,
       n.nics * n.nic_rate / 8.0 / n.accelerators AS each,
       n.frontend,
       replace(n.transport, 'GPUDirect-', '') AS transport,
       '[1](' || n.source || ')' AS source
FROM node_networks n
ORDER BY total DESC, n.provider, n.node;
