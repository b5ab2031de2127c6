-- title: Power of one accelerator
-- column accelerator: Accelerator
-- column power: Power [W] .0
-- column power_meaning: The vendor calls it
-- column per_watt: BF16 peak per watt [GFLOPS per W] .0
-- column reached_per_watt: BF16 reached per watt [GFLOPS per W] .0
-- column source: Source
-- note: Per watt: derived, with the power of this table, not with the power drawn in the run. TDP, TGP and TBP do not include the same parts.
SELECT p.accelerator || CASE a.status WHEN 'announced' THEN ' (announced)' ELSE '' END AS accelerator,
       p.power AS power,
       p.power_meaning AS power_meaning,
       1000.0 * f.tflops / p.power AS per_watt,
       1000.0 * x.tflops / p.power AS reached_per_watt,
       '[1](' || p.source || ')' || CASE p.unconfirmed WHEN 'yes' THEN ' unconfirmed' ELSE '' END AS source
FROM accelerator_power p
JOIN accelerators a USING (accelerator)
LEFT JOIN accelerator_tflops f ON f.accelerator = p.accelerator AND f.dtype = 'bf16'
LEFT JOIN (SELECT accelerator, max(tflops) AS tflops
           FROM matmul_maxima
           WHERE dtype = 'bf16'
           GROUP BY accelerator) x ON x.accelerator = p.accelerator
ORDER BY p.power DESC, p.accelerator;
