-- title: Links inside the node against cards out of it
-- column node: Node
-- column inside: Inside, one accelerator [GBps] .1
-- column outside: Out of the node, one accelerator [GBps] .1
-- column ratio: Inside over outside .1
-- note: Derived from the tables of links and of network cards: one direction, all links of one accelerator, and the network cards of the node divided by its accelerators.
SELECT n.provider || ' ' || n.node AS node,
       1.0 * l.one_way AS inside,
       n.nics * n.nic_rate / 8.0 / n.accelerators AS outside,
       l.one_way / (n.nics * n.nic_rate / 8.0 / n.accelerators) AS ratio
FROM node_networks n
JOIN accelerator_fabric l USING (accelerator)
ORDER BY ratio DESC, node;
