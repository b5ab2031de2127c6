-- title: Minimum bandwidths CVS expects of a node with eight MI300X
-- column test: TransferBench
-- column rate: At least [GBps] .1
-- column name: Key in the CVS configuration
-- column source: Source
-- note: Vendor, as of 21 November 2025, with 268,435,456 B per transfer. These are pass limits, and a good node exceeds them.
SELECT test, rate, key AS name, '[1](' || source || ')' AS source
FROM amd_health
ORDER BY rate, test;
