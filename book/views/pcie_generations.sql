-- title: PCI Express generations
-- column generation: Generation
-- column year: Published
-- column transfer_rate: Lane [GT/s] .0
-- column lane: Lane, one way [GBps] .2
-- column slot: 16 lanes, one way [GBps] .1
-- column source: Source
-- note: Lane and slot: derived, transfers per second over 8 bits per byte, times the payload share: 128 of 130 bits, from PCIe 6 on 242 of the 256 bytes of a flit.
SELECT generation,
       CAST(year AS TEXT) AS year,
       transfer_rate,
       transfer_rate / 8.0 * payload_parts / line_parts AS lane,
       transfer_rate / 8.0 * payload_parts / line_parts * lanes AS slot,
       '[1](' || source || ')' AS source
FROM pcie_generations
ORDER BY transfer_rate, generation;
