-- title: Speed-up of speculative decoding
-- column acceptance: Accepted [%] .0
-- column k1: 1 drafted .2
-- column k3: 3 drafted .2
-- column k5: 5 drafted .2
-- column k8: 8 drafted .2
-- column slow: 5 drafted, draft of 0.2 .2
-- column full: 5 drafted, no memory bound .2
-- note: Derived: tokens of a step over its time, `(1 - a**(k + 1)) / (1 - a) / (c * k + 1)`. A step of the draft takes c = 0.05 of one of the target, in the column before the last 0.2. Last column: checking k + 1 tokens costs k + 1 steps, as it does where arithmetic is the limit. Rates of acceptance are assumed.
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
