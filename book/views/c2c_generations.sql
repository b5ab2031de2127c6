-- title: NVLink-C2C between CPU and GPU
-- column module: Joins
-- column one_way: One way [GBps] .0
-- column both_ways: Both ways [GBps] .0
-- column peer_link: NVLink of the GPU, one way [GBps] .0
-- column source: Source
-- note: One way: derived, half of both.
SELECT module,
       both_ways / 2.0 AS one_way,
       both_ways,
       peer_link,
       '[1](' || source || ')' || CASE unconfirmed WHEN 'yes' THEN ' unconfirmed' ELSE '' END AS source
FROM c2c_generations
ORDER BY both_ways, peer_link;
