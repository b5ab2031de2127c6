-- title: When memory errors justify a new NVIDIA GPU
-- column gpu: GPU
-- column part: Memory
-- column rule: What is counted
-- column threshold: Number .0
-- column source: Source
-- note: Vendor. A count flags the GPU; a field diagnostic has to confirm it before it is exchanged. SECDED corrects one bit and detects two.
SELECT gpu, part, rule, threshold, '[1](' || source || ')' AS source
FROM gpu_replace
ORDER BY gpu, part, threshold DESC;
