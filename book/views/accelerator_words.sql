-- title: Terminology of NVIDIA, AMD and Gaudi
-- column what: Concept
-- column nvidia: NVIDIA
-- column amd: AMD
-- column gaudi: Intel Gaudi
-- column source: Source
SELECT what, nvidia, amd, gaudi, '[1](' || source || ')' AS source
FROM accelerator_words
WHERE gaudi IS NOT NULL
ORDER BY what;
