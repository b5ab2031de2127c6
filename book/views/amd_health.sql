-- title: Least rates that CVS expects of a node of eight MI300X
-- column test: TransferBench
-- column rate: At least [GBps] .1
-- column name: Name in the configuration
-- column source: Source
-- note: Vendor, as of 21 November 2025; 268,435,456 B for each transfer. They are limits for a pass, not what a good node reaches.
SELECT test, rate, key AS name, '[1](' || source || ')' AS source
FROM amd_health
ORDER BY rate, test;
