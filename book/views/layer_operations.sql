-- title: Lower bounds on the time of a layer
-- column operation: Operation
-- column kind: Kind
-- column flop: FLOP per token [M] .1
-- column intensity: FLOP per byte .0
-- column flop_share: Share of FLOPs [%] .2
-- column time: Time at best [µs] .0
-- column time_share: Share of time [%] .1
-- column bound: Limited by
-- note: Derived, not measured: one layer of an 8B Llama, forward, 8,192 tokens in bf16 on an H100 SXM, peak and bandwidth from the data sheet. Each operation reads and writes its activations once, and its weights once for all tokens. Attention counts the unmasked half.
SELECT q.operation AS operation,
       q.kind AS kind,
       q.flop / 1e6 AS flop,
       q.flop / q.bytes AS intensity,
       100.0 * q.flop / SUM(q.flop) OVER () AS flop_share,
       max(q.flop * 8192 / (q.tflops * 1e12), q.bytes * 8192 / (q.bandwidth * 1e9)) * 1e6 AS time,
       100.0 * max(q.flop * 8192 / (q.tflops * 1e12), q.bytes * 8192 / (q.bandwidth * 1e9))
         / SUM(max(q.flop * 8192 / (q.tflops * 1e12), q.bytes * 8192 / (q.bandwidth * 1e9))) OVER () AS time_share,
       CASE WHEN q.flop * 8192 / (q.tflops * 1e12) > q.bytes * 8192 / (q.bandwidth * 1e9) THEN 'compute' ELSE 'memory' END AS bound
FROM (SELECT o.operation,
             o.kind,
             2.0 * o.inner * o.outer + o.more_flop AS flop,
             2.0 * (o.read + o.written) + 2.0 * o.inner * o.outer / 8192 AS bytes,
             f.tflops,
             m.bandwidth
      FROM layer_operations AS o
      JOIN accelerator_tflops AS f ON f.accelerator = 'NVIDIA H100 SXM' AND f.dtype = 'bf16'
      JOIN accelerator_memory AS m ON m.accelerator = f.accelerator) AS q
ORDER BY q.flop DESC, q.bytes DESC, q.operation
