-- title: What a format can hold
-- column name: Format
-- column bits: Bits
-- column largest: Largest
-- column normal: Smallest normal
-- column smallest: Smallest
-- column step: Step at 1
-- note: Bits of exponent and mantissa: reported. The rest: derived from them, by the formulas in the data file. The largest of float8_e4m3fn is 1.75 times a power of two, because its last pattern of bits stands for NaN; it has no infinity.
SELECT name,
       exponent_bits || ' + ' || mantissa_bits AS bits,
       largest,
       smallest_normal AS normal,
       smallest,
       step
FROM number_formats
ORDER BY largest DESC, name
