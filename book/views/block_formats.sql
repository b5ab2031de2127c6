-- title: Bits per number with shared scales
-- column name: Format
-- column element: Element
-- column block: Block size
-- column scale: Scale
-- column bits: Bits per number with scale .3
-- column source: Source
-- note: Elements, blocks and scales are reported. Bits per number are those of the element plus the scale bits divided by the block size. NVFP4 also has one float32 for the whole tensor, which is negligible.
SELECT name,
       element,
       block,
       scale,
       element_bits + scale_bits * 1.0 / block + COALESCE(second_bits * 1.0 / second_block, 0) AS bits,
       '[1](' || source || ')' AS source
FROM block_formats
ORDER BY bits DESC, name
