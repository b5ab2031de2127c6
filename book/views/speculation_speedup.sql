-- title: Speedup of speculative decoding
-- column acceptance: Accepted [%] .0
-- column k1: 1 drafted .2
-- column k3: 3 drafted .2
-- column k5: 5 drafted .2
-- column k8: 8 drafted .2
-- column slow: 5 drafted, c = 0.2 .2
-- column full: 5 drafted, compute-bound .2
-- note: Derived, with assumed acceptance rates and c = 0.05 unless given: `(1 - a**(k + 1)) / (1 - a) / (c * k + 1)`. Last column: checking k + 1 tokens costs k + 1 steps.
SELECT c.acceptance AS acceptance,
       (1 - pow(c.acceptance / 100.0, 2)) / (1 - c.acceptance / 100.0) / (0.05 * 1 + 1) AS k1,
       (1 - pow(c.acceptance / 100.0, 4)) / (1 - c.acceptance / 100.0) / (0.05 * 3 + 1) AS k3,
       (1 - pow(c.acceptance / 100.0, 6)) / (1 - c.acceptance / 100.0) / (0.05 * 5 + 1) AS k5,
       (1 - pow(c.acceptance / 100.0, 9)) / (1 - c.acceptance / 100.0) / (0.05 * 8 + 1) AS k8,
       (1 - pow(c.acceptance / 100.0, 6)) / (1 - c.acceptance / 100.0) / (0.2 * 5 + 1) AS slow,
       (1 - pow(c.acceptance / 100.0, 6)) / (1 - c.acceptance / 100.0) / (0.05 * 5 + 6) AS full
FROM speculation_cases AS c
WHERE c.drafted = 1
ORDER BY c.acceptance
