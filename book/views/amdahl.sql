-- title: What a faster accelerator is worth, by the share of the step that it does not touch
-- column accelerator: Accelerator faster by a factor of .0
-- column share: Not accelerated
-- column step: Step faster by a factor of .1
-- note: Derived: 1 / (share + (1 - share) / factor), after Amdahl. Shares and factors are assumed.
-- plot: line
-- plot x: accelerator
-- plot y: step
-- plot by: share
-- plot log: x
SELECT s.speedup AS accelerator,
       s.share || ' %' AS share,
       1.0 / (s.share / 100.0 + (1.0 - s.share / 100.0) / s.speedup) AS step
FROM amdahl_shares s
ORDER BY s.share, s.speedup
