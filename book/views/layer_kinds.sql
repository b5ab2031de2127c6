-- title: The three kinds of operation in a layer
-- column kind: Kind
-- column operations: Operations .0
-- column flop_share: Share of FLOPs [%] .2
-- column time: Time at best [µs] .0
-- column time_share: Share of time [%] .1
-- column double: Share with compute twice as fast [%] .1
-- note: Derived from the table of the layer's operations, not measured. The last column doubles compute and keeps memory bandwidth.
SELECT q.kind AS kind,
       COUNT(*) AS operations,
       100.0 * SUM(q.flop) / q.all_flop AS flop_share,
       SUM(q.time) * 1e6 AS time,
       100.0 * SUM(q.time) / q.all_time AS time_share,
       100.0 * SUM(q.half) / q.all_half AS double
FROM (SELECT p.kind,
             p.flop,
             p.time,
             p.half,
             SUM(p.flop) OVER () AS all_flop,
             SUM(p.time) OVER () AS all_time,
             SUM(p.half) OVER () AS all_half
      FROM (SELECT o.kind,
                   2.0 * o.inner * o.outer + o.more_flop AS flop,
                   max((2.0 * o.inner * o.outer + o.more_flop) * 8192 / (f.tflops * 1e12),
                       (2.0 * (o.read + o.written) * 8192 + 2.0 * o.inner * o.outer) / (m.bandwidth * 1e9)) AS time,
                   max((2.0 * o.inner * o.outer + o.more_flop) * 8192 / (2 * f.tflops * 1e12),
                       (2.0 * (o.read + o.written) * 8192 + 2.0 * o.inner * o.outer) / (m.bandwidth * 1e9)) AS half
            FROM layer_operations AS o
            JOIN accelerator_tflops AS f ON f.accelerator = 'NVIDIA H100 SXM' AND f.dtype = 'bf16'
            JOIN accelerator_memory AS m ON m.accelerator = f.accelerator) AS p) AS q
GROUP BY q.kind, q.all_flop, q.all_time, q.all_half
ORDER BY time_share DESC
