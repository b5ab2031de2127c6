-- title: Range of number formats
-- column name: Format
-- column bits: Bits
-- column largest: Largest
-- column normal: Smallest normal
-- column smallest: Smallest
-- column doublings: Doublings .1
-- note: Computed by the calculator number-format from the bits of sign, exponent and mantissa, which are reported. Doublings count from the smallest to the largest number. Numbers below the smallest normal lose digits, and half of the smallest rounds to zero.
SELECT f.name AS name,
       f.sign_bits || ' + ' || f.exponent_bits || ' + ' || f.mantissa_bits AS bits,
       CAST(printf('%.6g', c.largest) AS REAL) AS largest,
       CAST(printf('%.6g', c.smallest_normal) AS REAL) AS normal,
       CAST(printf('%.6g', c.smallest) AS REAL) AS smallest,
       c.doublings AS doublings
FROM float_formats AS f
JOIN calculators AS c ON c.exponent_bits = f.exponent_bits AND c.mantissa_bits = f.mantissa_bits AND c.special = f.special
JOIN records AS r ON r.record = c.record
WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
  AND r.newest
  AND r.complete
  AND r.profile IN ('formats', 'small-formats')
  AND c.calculator = 'number-format'
ORDER BY c.largest DESC, c.mantissa_bits DESC, f.name
