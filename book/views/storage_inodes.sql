-- title: How many files a file system holds
-- column system: File system
-- column rule: Rule
-- column per_tb: Files in a TB [M] .1
-- column mean: Mean file where both end together [kB] .1
-- column source: Source
-- note: The last two are derived from the rule. Files smaller than the mean use up the inodes first.
SELECT system, rule,
       files / capacity * 1000 / 1e6 AS per_tb,
       capacity * 1e9 / files / 1e3 AS mean,
       '[1](' || source || ')' AS source
FROM storage_inodes
ORDER BY mean, system;
