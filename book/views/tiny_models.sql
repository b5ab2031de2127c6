-- title: Four tiny models
-- column model: Model
-- column kind: Kind
-- column vocabulary: Vocabulary .0
-- column parameters: Parameters .0
-- column formula: By formula .0
-- column folder: Folder [kB] .0
-- column verdict: Verdict
-- note: A small trial run on a CPU: made, saved, loaded again, run forward and made to generate. The folder holds weights in float32, tokenizer and configuration.
SELECT t.model || '-' || t.tokenizer AS model,
       t.kind AS kind,
       t.vocabulary AS vocabulary,
       t.parameters AS parameters,
       t.parameters_by_formula AS formula,
       t.bytes / 1e3 AS folder,
       t.verdict AS verdict
FROM make_tiny_model AS t
JOIN records AS r ON r.record = t.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'demo'
ORDER BY t.parameters, t.model, r.record
