-- title: One run, eight seeds, two settings
-- column setting: Beta2 .2
-- column runs: Runs .0
-- column lowest: Lowest loss .3
-- column mean: Mean .3
-- column highest: Highest .3
-- column range: Highest less lowest .3
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seeds 0 to 7. Held-out loss after 300 steps.
SELECT l.setting AS setting,
       count(*) AS runs,
       min(l.held_out_loss) AS lowest,
       avg(l.held_out_loss) AS mean,
       max(l.held_out_loss) AS highest,
       max(l.held_out_loss) - min(l.held_out_loss) AS range
FROM loss_patterns AS l
JOIN records AS r ON r.record = l.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND l.experiment = 'seeds'
GROUP BY l.setting
ORDER BY l.setting
