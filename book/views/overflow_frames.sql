-- title: The frames before an overflow that was planted
-- column module: Module
-- column tensor: Tensor
-- column low: Smallest
-- column high: Largest
-- column state: State
-- note: A small trial run on a CPU in float16: the last five frames of 13. Absolute values; where the largest is not finite the state says what it is.
SELECT u.module AS module,
       u.tensor AS tensor,
       u.abs_min AS low,
       u.abs_max AS high,
       u.state AS state
FROM underflow_overflow AS u
JOIN records AS r ON r.record = u.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'toy'
  AND u.frame >= 8
ORDER BY u.frame,
         CASE u.tensor WHEN 'weight' THEN 1 WHEN 'bias' THEN 2 WHEN 'output' THEN 4 ELSE 3 END,
         u.tensor, r.record
