-- title: Memory error thresholds for replacing an NVIDIA GPU
-- column gpu: GPU
-- column part: Memory
-- column rule: Criterion
-- column threshold: Threshold .0
-- column source: Source
-- note: Vendor. The threshold flags the GPU, and a field diagnostic must confirm it before a replacement. SECDED corrects one bit and detects two.
SELECT gpu, part, rule, threshold, '[1](' || source || ')' AS source
FROM gpu_replace
ORDER BY gpu, part, threshold DESC;
