-- title: What shared scales cost
-- column name: Format
-- column element: A number
-- column block: Numbers in a block
-- column scale: Their scale
-- column bits: Bits per number, all told .3
-- column source: Source
-- note: Elements, blocks and scales: reported. Bits a number: bits of the element, plus those of its scales over the numbers that share them. NVFP4 also has one float32 for the whole tensor, which is negligible.
SELECT name,
       element,
       block,
       scale,
       element_bits + scale_bits * 1.0 / block + COALESCE(second_bits * 1.0 / second_block, 0) AS bits,
       '[1](' || source || ')' AS source
FROM block_formats
ORDER BY bits DESC, name
