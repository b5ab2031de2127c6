-- title: How fine a format is
-- column name: Format
-- column stored: Stored [bit]
-- column step: From 1 to the next
-- column error: Error of rounding [%]
-- column digits: Decimal digits .1
-- column values: Different numbers
-- note: Computed by the calculator number-format from the bits, which are reported. The error of rounding is the largest for normal numbers; below them it grows to 100 %. Infinities and NaN are not counted, zero once.
SELECT f.name AS name,
       f.stored_bits AS stored,
       c.step AS step,
       c.relative_error * 100 AS error,
       c.decimal_digits AS digits,
       c.distinct_values AS "values"
FROM float_formats AS f
JOIN calculators AS c ON c.exponent_bits = f.exponent_bits AND c.mantissa_bits = f.mantissa_bits AND c.special = f.special
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile IN ('formats', 'small-formats')
  AND c.calculator = 'number-format'
ORDER BY c.step, f.stored_bits DESC, c.distinct_values DESC, f.name
