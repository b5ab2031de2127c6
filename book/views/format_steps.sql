-- title: Precision of number formats
-- column name: Format
-- column stored: Bits stored
-- column step: Gap after 1
-- column error: Rounding error [%]
-- column digits: Decimal digits .1
-- column values: Distinct numbers
-- note: Computed by the calculator number-format from the bits, which are reported. The rounding error is the maximum for normal numbers and grows to 100 % below them. Infinities and NaN are not counted, zero counts once.
SELECT f.name AS name,
       f.stored_bits AS stored,
       CAST(printf('%.6g', c.step) AS REAL) AS step,
       CAST(printf('%.6g', c.relative_error * 100) AS REAL) AS error,
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
