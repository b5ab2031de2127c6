-- title: How far neighbours are apart, over the range of a format
-- column power: Size of a number, power of 2 .0
-- column gap: Gap to the next, of the number [%]
-- column name: Format
-- note: Computed, not measured: at the smallest number, the smallest normal one and the largest, each gap at the lower end of its doubling.
-- plot: line
-- plot x: power
-- plot y: gap
-- plot by: name
-- plot log: y
SELECT 1 - c.bias - c.mantissa_bits AS power, c.step / c.step * 100 AS gap, f.name AS name
FROM float_formats AS f
JOIN calculators AS c ON c.exponent_bits = f.exponent_bits AND c.mantissa_bits = f.mantissa_bits AND c.special = f.special
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest AND r.complete AND r.profile IN ('formats', 'small-formats') AND c.calculator = 'number-format'
  AND f.name IN ('float32', 'bfloat16', 'float16', 'float8_e5m2', 'float8_e4m3fn', 'float4_e2m1fn')
UNION ALL
SELECT 1 - c.bias, c.step * 100, f.name
FROM float_formats AS f
JOIN calculators AS c ON c.exponent_bits = f.exponent_bits AND c.mantissa_bits = f.mantissa_bits AND c.special = f.special
JOIN records AS r ON r.record = c.record
WHERE r.newest AND r.complete AND r.profile IN ('formats', 'small-formats') AND c.calculator = 'number-format'
  AND f.name IN ('float32', 'bfloat16', 'float16', 'float8_e5m2', 'float8_e4m3fn', 'float4_e2m1fn')
UNION ALL
SELECT 1 - c.bias - c.mantissa_bits + c.doublings, c.step * 100, f.name
FROM float_formats AS f
JOIN calculators AS c ON c.exponent_bits = f.exponent_bits AND c.mantissa_bits = f.mantissa_bits AND c.special = f.special
JOIN records AS r ON r.record = c.record
WHERE r.newest AND r.complete AND r.profile IN ('formats', 'small-formats') AND c.calculator = 'number-format'
  AND f.name IN ('float32', 'bfloat16', 'float16', 'float8_e5m2', 'float8_e4m3fn', 'float4_e2m1fn')
ORDER BY name, power
