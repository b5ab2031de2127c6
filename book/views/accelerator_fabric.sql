-- title: Links inside a node or pod
-- column accelerator: Accelerator
-- column fabric: Fabric
-- column one_way: One way, all links [GBps] .1
-- column one_way_peer: One way, one peer [GBps] .1
-- column domain: Joins .0
-- column memory_ratio: Memory over links .1
-- column source: Source
-- note: One direction; a vendor's page mostly prints both directions together. Joins: how many accelerators the fabric reaches. Memory over links: derived, memory bandwidth divided by one way over all links.
SELECT l.accelerator || CASE a.status WHEN 'announced' THEN ' (announced)' ELSE '' END AS accelerator,
       l.fabric,
       l.one_way,
       l.one_way_peer,
       l.domain,
       1.0 * m.bandwidth / l.one_way AS memory_ratio,
       '[1](' || l.source || ')' || CASE l.unconfirmed WHEN 'yes' THEN ' unconfirmed' ELSE '' END AS source
FROM accelerator_fabric l
JOIN accelerators a USING (accelerator)
JOIN accelerator_memory m USING (accelerator)
ORDER BY l.one_way DESC, l.domain DESC, l.accelerator;
