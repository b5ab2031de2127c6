-- title: Memory of one accelerator
-- column accelerator: Accelerator
-- column memory: Memory as labelled [GB] .0
-- column memory_type: Type
-- column bandwidth: Bandwidth [GBps] .0
-- column sweep: One full read [ms] .1
-- column source: Source
-- note: One full read: derived, the label taken as GiB and read once at peak bandwidth; a bound, not a time.
SELECT m.accelerator || CASE a.status WHEN 'announced' THEN ' (announced)' ELSE '' END AS accelerator,
       m.memory AS memory,
       m.memory_type AS memory_type,
       m.bandwidth AS bandwidth,
       1000.0 * m.memory * 1073741824 / (m.bandwidth * 1e9) AS sweep,
       '[1](' || m.source || ')' || CASE m.unconfirmed WHEN 'yes' THEN ' unconfirmed' ELSE '' END AS source
FROM accelerator_memory m
JOIN accelerators a USING (accelerator)
ORDER BY m.memory DESC, m.bandwidth DESC, m.accelerator;
