-- title: Peak dense matmul throughput by data type
-- column accelerator: Accelerator
-- column fp4: FP4 [TFLOPS] .0
-- column fp8: FP8 [TFLOPS] .0
-- column bf16: BF16 [TFLOPS] .0
-- column tf32: TF32 [TFLOPS] .0
-- column int8: INT8 [TOPS] .0
-- column sources: Sources
-- note: Dense. A dash: not supported or not published. FP16 equals BF16 on NVIDIA, AMD and Trainium. Gaudi 3: 459 TFLOPS. TPUs: none published.
-- note: Announced parts are projections. MI455X's FP8 and FP4 figures are a rack's divided by 72, RTX PRO 6000's are half of NVIDIA's sparse figures. A data type after the sources marks an unconfirmed figure.
WITH cited AS (
    SELECT accelerator, source,
           row_number() OVER (PARTITION BY accelerator ORDER BY min(rowid)) AS number
    FROM accelerator_tflops
    WHERE dtype IN ('tf32', 'bf16', 'fp8', 'int8', 'fp4')
    GROUP BY accelerator, source
),
links AS (
    SELECT accelerator, group_concat('[' || number || '](' || source || ')', ' ') AS links
    FROM (SELECT * FROM cited ORDER BY accelerator, number)
    GROUP BY accelerator
),
doubts AS (
    SELECT accelerator, group_concat(upper(dtype), ', ') AS doubts
    FROM (SELECT * FROM accelerator_tflops
          WHERE unconfirmed = 'yes' AND dtype IN ('tf32', 'bf16', 'fp8', 'int8', 'fp4')
          ORDER BY accelerator, dtype)
    GROUP BY accelerator
)
SELECT f.accelerator || CASE a.status WHEN 'announced' THEN ' (announced)' ELSE '' END AS accelerator,
       max(CASE f.dtype WHEN 'tf32' THEN f.tflops END) AS tf32,
       max(CASE f.dtype WHEN 'bf16' THEN f.tflops END) AS bf16,
       max(CASE f.dtype WHEN 'fp8' THEN f.tflops END) AS fp8,
       max(CASE f.dtype WHEN 'int8' THEN f.tflops END) AS int8,
       max(CASE f.dtype WHEN 'fp4' THEN f.tflops END) AS fp4,
       l.links || CASE WHEN d.doubts IS NULL OR a.status = 'announced' THEN ''
                       ELSE ' ' || d.doubts || '?' END AS sources
FROM accelerator_tflops f
JOIN accelerators a USING (accelerator)
JOIN links l USING (accelerator)
LEFT JOIN doubts d USING (accelerator)
WHERE a.compared = 'yes'
GROUP BY f.accelerator
ORDER BY bf16 DESC, fp8 DESC, fp4 DESC, f.accelerator;
