-- title: When to run each level, from seconds to an hour
-- column level: Level .0
-- column name: Name
-- column minutes: Duration (approx.) [min]
-- column use: When
-- column class: Class
-- column source: Source
-- note: For a node with 8 GPUs. NVIDIA says level 1 takes seconds. GPUs not meant for data centers get level 1 only.
SELECT level, name, minutes, use, class, '[1](' || source || ')' AS source
FROM dcgm_levels
ORDER BY level;
