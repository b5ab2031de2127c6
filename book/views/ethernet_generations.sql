-- title: Rates of Ethernet
-- column name: Name
-- column standard: IEEE
-- column year: Approved
-- column lanes: Lanes .0
-- column lane_rate: Lane [Gbps] .0
-- column port: Port [Gbps] .0
-- column port_bytes: The same [GBps] .1
-- column source: Source
-- note: Port: derived, lanes times rate. Unconfirmed: a planned year.
SELECT name,
       standard,
       CAST(year AS TEXT) AS year,
       lanes,
       lane_rate,
       lane_rate * lanes AS port,
       lane_rate * lanes / 8.0 AS port_bytes,
       '[1](' || source || ')' || CASE unconfirmed WHEN 'yes' THEN ' unconfirmed' ELSE '' END AS source
FROM ethernet_generations
ORDER BY port, lane_rate, name;
