-- title: What the same thing is called on three families
-- column what: Thing
-- column nvidia: NVIDIA
-- column amd: AMD
-- column gaudi: Intel Gaudi
-- column source: Source
SELECT what, nvidia, amd, gaudi, '[1](' || source || ')' AS source
FROM accelerator_words
WHERE gaudi IS NOT NULL
ORDER BY what;
