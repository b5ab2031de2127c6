-- title: Four tiny models
-- column model: Model
-- column kind: Kind
-- column vocabulary: Vocabulary .0
-- column parameters: Parameters .0
-- column folder: Size [kB] .0
-- note: Measured on a CPU. All four passed the checks. Size: float32 weights, tokenizer and configuration.
SELECT t.model || '-' || t.tokenizer AS model,
       t.kind AS kind,
       t.vocabulary AS vocabulary,
       t.parameters AS parameters,
       t.bytes / 1e3 AS folder
FROM make_tiny_model AS t
JOIN records AS r ON r.record = t.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'demo'
ORDER BY t.parameters, t.model, r.record
