-- title: Weights by format
-- column format: Format
-- column bits: Bits per weight .2
-- column small: 8.03B parameters [GiB] .1
-- column large: 70.6B parameters [GiB] .1
-- column huge: 405.9B parameters [GiB] .1
-- column note: Scales
-- column source: Source
-- note: Derived: parameters times bits over 8. Real quantized checkpoints are larger, because they keep embeddings and some layers in 16 bits.
SELECT f.format AS format,
       f.bits AS bits,
       s.parameters * 1e9 * f.bits / 8 / 1073741824.0 AS small,
       l.parameters * 1e9 * f.bits / 8 / 1073741824.0 AS large,
       h.parameters * 1e9 * f.bits / 8 / 1073741824.0 AS huge,
       f.note AS note,
       '[1](' || f.source || ')' AS source
FROM weight_formats AS f
JOIN model_shapes AS s ON s.model = 'Llama 3.1 8B'
JOIN model_shapes AS l ON l.model = 'Llama 3.1 70B'
JOIN model_shapes AS h ON h.model = 'Llama 3.1 405B'
ORDER BY f.rank
