-- title: What torch.compile gains and costs
-- column variant: Variant
-- column step: Step [ms] .1
-- column spread: IQR [%] .1
-- column speedup: Speedup .2
-- column cold: Compiling, cold [s] .1
-- column warm: Compiling, warm [s] .1
-- column break_even: Break-even [steps] .0
-- column graphs: Graphs .0
-- column breaks: Breaks .0
-- column verdict: Verdict
-- note: Measured on one thread of two CPU cores: two transformer layers of hidden size 256, 2 sequences of 64 tokens, forward, float32. Cold: with an empty compiler cache; warm: the second process, with that cache.
SELECT c.variant AS variant,
       c.seconds_median * 1e3 AS step,
       c.spread * 100 AS spread,
       c.speedup AS speedup,
       c.compile_seconds AS cold,
       c.compile_seconds_warm_cache AS warm,
       c.break_even_calls AS break_even,
       c.graphs AS graphs,
       c.graph_breaks AS breaks,
       c.verdict AS verdict
FROM compile_bench AS c
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND c.model = 'block'
ORDER BY c.compile_seconds, c.variant;
