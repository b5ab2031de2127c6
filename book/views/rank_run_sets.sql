-- title: What rank_run sets for rank 0 of 2
-- column name: Variable
-- column value: Value
-- column source: From
-- note: Dry run without a launcher, on a machine with two cores and no accelerator. Folders are shortened to their last part.
SELECT k.name, k.value, k.source
FROM rank_run AS k
JOIN records AS r ON r.record = k.record
WHERE r.record = 'rank_run/cpu-x86_64-avx2-2core_20261122' AND k.rank = 0
ORDER BY CASE k.name WHEN 'RANK' THEN 0 WHEN 'WORLD_SIZE' THEN 1 WHEN 'LOCAL_RANK' THEN 2 WHEN 'LOCAL_WORLD_SIZE' THEN 3 WHEN 'NODE_RANK' THEN 4 WHEN 'MASTER_ADDR' THEN 5 WHEN 'MASTER_PORT' THEN 6 ELSE 7 END, k.name
