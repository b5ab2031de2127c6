-- title: Generations of InfiniBand
-- column generation: Generation
-- column year: Products since
-- column adapter: NICs
-- column lane_rate: Lane [Gbps] .0
-- column port: Port of four lanes [Gbps] .0
-- column port_bytes: The same [GBps] .2
-- column single: With one lane only [GBps] .2
-- column source: Source
-- note: Port: derived, lanes times rate, and that over eight bits a byte. The last column of figures is what a bad cable leaves of the port.
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
