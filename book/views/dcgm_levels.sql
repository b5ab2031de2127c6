-- title: Levels of dcgmi diag
-- column level: Level .0
-- column name: Name
-- column minutes: Takes about [min]
-- column use: When
-- column class: Class
-- column source: Source
-- note: For a node with 8 GPUs; the vendor says seconds for level 1. GPUs that are not meant for data centres get level 1 only.
SELECT level, name, minutes, use, class, '[1](' || source || ')' AS source
FROM dcgm_levels
ORDER BY level;
