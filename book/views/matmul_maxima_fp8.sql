-- title: Best FP8 matmul reported per accelerator
-- column accelerator: Accelerator
-- column reached: Reached [TFLOPS] .1
-- column peak: Peak [TFLOPS] .0
-- column share: Of peak [%] .1
-- column source: Source
-- note: Reached: reported by the source, with shapes and software in the data. Peak: the specified dense figure. Of peak: derived.
SELECT x.accelerator || coalesce(' (' || x.note || ')', '') AS accelerator,
       x.tflops AS reached,
       f.tflops AS peak,
       100.0 * x.tflops / f.tflops AS share,
       '[1](' || x.source || ')' AS source
FROM matmul_maxima x
JOIN accelerator_tflops f ON f.accelerator = x.accelerator AND f.dtype = x.dtype
JOIN accelerators a ON a.accelerator = x.accelerator AND a.compared = 'yes'
WHERE x.dtype = 'fp8'
ORDER BY share DESC, x.accelerator;
