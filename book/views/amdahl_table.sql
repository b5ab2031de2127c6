-- title: What an accelerator twice, four times and eight times as fast makes of the step
-- column share: Not accelerated [%] .0
-- column two: Twice .1
-- column four: Four times .1
-- column eight: Eight times .1
-- column bound: Bound .1
-- note: Derived: 1 / (share + (1 - share) / factor). The bound is 1 / share, which no accelerator passes. Shares are assumed.
SELECT s.share AS share,
       1.0 / (s.share / 100.0 + (1.0 - s.share / 100.0) / 2.0) AS two,
       1.0 / (s.share / 100.0 + (1.0 - s.share / 100.0) / 4.0) AS four,
       1.0 / (s.share / 100.0 + (1.0 - s.share / 100.0) / 8.0) AS eight,
       100.0 / s.share AS bound
FROM amdahl_shares s
WHERE s.speedup = 1
ORDER BY s.share
