-- title: What tracing costs
-- column way: Way
-- column calls: Calls .0
-- column lines: Lines .0
-- column median: Median [µs] .0
-- column spread: IQR [%] .0
-- column slower: Times as slow .0
-- column each: Each line [µs] .1
-- note: A small trial run with Python 3.11 on two CPU cores that other programs used too: read the order of size, not the digits.
SELECT t.way AS way,
       t.calls AS calls,
       t.lines AS lines,
       t.seconds_median * 1e6 AS median,
       t.spread * 100 AS spread,
       t.slowdown AS slower,
       t.seconds_per_line * 1e6 AS each
FROM nicer_trace AS t
JOIN records AS r ON r.record = t.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
ORDER BY t.slowdown, t.way, r.record
