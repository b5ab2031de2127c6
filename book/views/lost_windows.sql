-- title: What a format loses, scale by scale
-- column power: Loss scale, power of 2
-- column bf16: bfloat16, lost [%] .1
-- column fp16: float16, lost [%] .1
-- column fp16_few: float16, subnormal [%] .1
-- column e5m2: float8_e5m2, lost [%] .1
-- column e4m3: float8_e4m3fn, lost [%] .1
-- note: A small trial run on a CPU. Subnormal numbers have fewer digits. Where the window lies says nothing of your model; how wide it is says something of the format.
SELECT a.scale_power AS power,
       (b.zero_share + b.too_large_share) * 100 AS bf16,
       (a.zero_share + a.too_large_share) * 100 AS fp16,
       a.subnormal_share * 100 AS fp16_few,
       (c.zero_share + c.too_large_share) * 100 AS e5m2,
       (d.zero_share + d.too_large_share) * 100 AS e4m3
FROM underflow_overflow AS a
JOIN underflow_overflow AS b ON b.record = a.record AND b.scale_power = a.scale_power AND b.dtype = 'bfloat16'
JOIN underflow_overflow AS c ON c.record = a.record AND c.scale_power = a.scale_power AND c.dtype = 'float8_e5m2'
JOIN underflow_overflow AS d ON d.record = a.record AND d.scale_power = a.scale_power AND d.dtype = 'float8_e4m3fn'
JOIN records AS r ON r.record = a.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'lost'
  AND a.dtype = 'float16'
  AND a.scale_power IN (-8, -4, 0, 4, 8, 12, 16, 20, 24, 28)
ORDER BY a.scale_power
