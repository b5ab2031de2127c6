-- title: InfiniBand generations
-- column generation: Generation
-- column year: Products since
-- column adapter: NICs
-- column lane_rate: Lane [Gbps] .0
-- column port: Port, 4 lanes [Gbps] .0
-- column port_bytes: Port, 4 lanes [GBps] .2
-- column single: 1 lane [GBps] .2
-- column source: Source
-- note: Port: derived, lanes times lane rate, divided by 8 for GBps. The 56 Gbps of FDR include encoding. A bad cable can leave a port with one lane.
SELECT generation,
       CAST(year AS TEXT) AS year,
       adapter,
       lane_rate,
       lane_rate * lanes AS port,
       lane_rate * lanes / 8.0 AS port_bytes,
       lane_rate / 8.0 AS single,
       '[1](' || source || ')' || CASE unconfirmed WHEN 'yes' THEN ' unconfirmed' ELSE '' END AS source
FROM infiniband_generations
ORDER BY lane_rate, generation;
