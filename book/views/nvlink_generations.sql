-- title: NVLink generations
-- column generation: Generation
-- column accelerators: Accelerators
-- column link_rate: One link, one way [GBps] .0
-- column links: Links .0
-- column one_way: All links, one way [GBps] .0
-- column both_ways: All links, both ways [GBps] .0
-- column source: Source
-- note: All links: derived, links times the bandwidth of one, doubled for both directions as on data sheets.
SELECT generation,
       accelerators,
       link_rate,
       links,
       link_rate * links AS one_way,
       2.0 * link_rate * links AS both_ways,
       '[1](' || source || ')' || CASE unconfirmed WHEN 'yes' THEN ' unconfirmed' ELSE '' END AS source
FROM nvlink_generations
ORDER BY year, generation;
