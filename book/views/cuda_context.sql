-- title: Memory of a context
-- column torch: PyTorch
-- column loading: Kernels loaded
-- column used: Used after one tensor of 4 bytes [GiB] .2
-- note: Reported by the Machine Learning Engineering Open Book, on an A100 with 80 GB.
SELECT c.torch AS torch, c.loading AS loading, c.used AS used
FROM cuda_context AS c
ORDER BY c.torch, c.loading
