-- title: Average file size at which inodes and space run out together
-- column system: File system
-- column rule: Rule
-- column per_tb: Files per TB [M] .1
-- column mean: Break-even file size [kB] .1
-- column source: Source
-- note: The last two are derived from the rule. If your mean file is smaller than the break-even size, inodes run out before space.
SELECT system, rule,
       files / capacity * 1000 / 1e6 AS per_tb,
       capacity * 1e9 / files / 1e3 AS mean,
       '[1](' || source || ')' AS source
FROM storage_inodes
ORDER BY mean, system;
