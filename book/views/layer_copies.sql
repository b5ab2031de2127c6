-- title: Activations kept per layer, by model
-- column model: Model
-- column copies: Copies of the hidden state .1
-- note: Reported by the Machine Learning Engineering Open Book for the layers of Hugging Face Transformers.
SELECT c.model AS model, c.copies AS copies
FROM layer_copies AS c
ORDER BY c.copies, c.model
