-- title: Capacity to rent for 10 GBps
-- column service: Service
-- column rate: Per TiB [MBps] .0
-- column smallest: Minimum size [TiB] .1
-- column at_smallest: Throughput at minimum [GBps] .1
-- column for_ten: Size for 10 GBps [TiB] .0
-- column source: Source
-- note: Throughput and minimum size as the vendors state them, without the 250 and 40 MBps tiers. Filestore states 260 MiB per second. The last two columns are derived.
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
