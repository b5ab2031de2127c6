-- title: Only a switch gives one peer the full bandwidth
-- column accelerator: Accelerator
-- column fabric: Fabric
-- column one_way: To all peers [GBps] .1
-- column one_way_peer: To one peer [GBps] .1
-- column share: One peer / all peers [%] .0
-- column wiring: Wiring
-- note: One direction. Ratio: derived. Wiring: "switched" if one peer gets the full bandwidth.
SELECT l.accelerator,
       l.fabric,
       l.one_way,
       l.one_way_peer,
       100.0 * l.one_way_peer / l.one_way AS share,
       CASE WHEN l.one_way_peer = l.one_way THEN 'switched' ELSE 'point to point' END AS wiring
FROM accelerator_fabric l
JOIN accelerators a USING (accelerator)
WHERE a.status = 'available' AND a.compared = 'yes' AND l.one_way_peer IS NOT NULL
ORDER BY share DESC, l.one_way DESC, l.accelerator;
