-- title: Disk usage of small files
-- column system: File system
-- column large: Block [KiB] .0
-- column small: Smallest allocation [KiB] .0
-- column used: 1M files of 5 kB use [GB] .0
-- column times: Times file size .1
-- column source: Source
-- note: Usage and ratio: derived, whole allocations per file, without metadata, replicas and data stored inside the inode.
SELECT system, large, small,
       ceil(5000.0 / (small * 1024)) * small * 1024 * 1e6 / 1e9 AS used,
       ceil(5000.0 / (small * 1024)) * small * 1024 / 5000 AS times,
       '[1](' || source || ')' AS source
FROM storage_units
ORDER BY small, large, system;
