-- title: Speculative decoding: tokens per target step
-- column drafted: Tokens drafted .0
-- column tokens: Expected tokens per step .2
-- column acceptance: Accepted
-- note: Derived: `(1 - a**(k + 1)) / (1 - a)`, Leviathan et al. 2022. Acceptance rates are assumed.
-- plot: line
-- plot x: drafted
-- plot y: tokens
-- plot by: acceptance
SELECT c.drafted AS drafted,
       (1 - pow(c.acceptance / 100.0, c.drafted + 1)) / (1 - c.acceptance / 100.0) AS tokens,
       c.acceptance || ' %' AS acceptance
FROM speculation_cases AS c
ORDER BY c.acceptance, c.drafted
