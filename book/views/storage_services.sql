-- title: Throughput that comes with the capacity of rented file systems
-- column service: Service
-- column rate: For each TiB [MBps] .0
-- column smallest: Smallest [TiB] .1
-- column at_smallest: Smallest gives [GBps] .1
-- column for_ten: 10 GBps need [TiB] .0
-- column source: Source
-- note: Throughput and smallest size as the vendors state them, without the tiers of 250 and 40 MBps; Filestore counts 260 MiB a second. The last two columns are derived.
WITH s AS (SELECT service, smallest, source,
                  per_tib * CASE counts_in WHEN 'MiB' THEN 1.048576 ELSE 1.0 END AS rate
           FROM storage_services)
SELECT service, rate, smallest,
       rate * smallest / 1000 AS at_smallest,
       CASE WHEN 10000 / rate > smallest THEN 10000 / rate ELSE smallest END AS for_ten,
       '[1](' || source || ')' AS source
FROM s
WHERE rate NOT IN (250, 40)
ORDER BY rate DESC, smallest, service;
