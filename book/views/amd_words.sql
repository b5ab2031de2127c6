-- title: The AMD counterpart of each NVIDIA term
-- column what: Concept
-- column nvidia: NVIDIA
-- column amd: AMD
-- note: From the documentation of both, read in November 2026.
SELECT what, nvidia, amd
FROM accelerator_words
ORDER BY what;
