-- title: Smallest piece of disk that a file occupies
-- column system: File system
-- column large: Block [KiB] .0
-- column small: Smallest piece [KiB] .0
-- column used: 1M files of 5 kB use [GB] .0
-- column times: Times their size .1
-- column source: Source
-- note: Used, and times: derived, whole pieces per file, without metadata, copies for safety and data kept inside the inode.
SELECT system, large, small,
       ceil(5000.0 / (small * 1024)) * small * 1024 * 1e6 / 1e9 AS used,
       ceil(5000.0 / (small * 1024)) * small * 1024 / 5000 AS times,
       '[1](' || source || ')' AS source
FROM storage_units
ORDER BY small, large, system;
