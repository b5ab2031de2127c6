-- title: Collectives of Python objects against the same with tensors
-- column task: What
-- column payload: Payload [B] .0
-- column object: Object [ms] .2
-- column tensor: Tensor [ms] .2
-- column ratio: Ratio .1
-- column spread: IQR of the ratio [%] .0
-- column verdict: Verdict
-- note: Measured with gloo, 2 ranks on two CPU cores that other programs used too: this shows the shape of an answer and says nothing of an accelerator.
SELECT o.task AS task,
       o.payload_bytes AS payload,
       o.object_seconds_median * 1e3 AS object,
       o.tensor_seconds_median * 1e3 AS tensor,
       o.ratio_median AS ratio,
       o.spread * 100 AS spread,
       o.verdict AS verdict
FROM object_vs_tensor_collectives AS o
JOIN records AS r ON r.record = o.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
ORDER BY o.task, o.payload_bytes
