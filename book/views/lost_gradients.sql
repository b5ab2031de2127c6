-- title: Gradients lost by each format, by loss scale
-- column power: Loss scale, power of 2
-- column lost: Lost [%] .1
-- column format: Format
-- note: A small model on a CPU, 12,000 gradients computed in float32, multiplied by the scale and rounded to the format. Lost numbers became zero or overflowed.
-- plot: line
-- plot x: power
-- plot y: lost
-- plot by: format
SELECT u.scale_power AS power,
       (u.zero_share + u.too_large_share) * 100 AS lost,
       u.dtype AS format
FROM underflow_overflow AS u
JOIN records AS r ON r.record = u.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'lost'
ORDER BY u.dtype, u.scale_power
