-- title: MFU and HFU of one program
-- column model: Model
-- column mfu: MFU [%] .1
-- column hfu: HFU [%] .1
-- column again: Of the executed operations, repeated [%] .1
-- note: Reported by Korthikanti et al. 2022: Megatron-LM on A100, selective recomputation. The last column is derived, (HFU - MFU) / HFU.
SELECT p.model AS model,
       p.mfu AS mfu,
       p.hfu AS hfu,
       100.0 * (p.hfu - p.mfu) / p.hfu AS again
FROM mfu_published AS p
ORDER BY p.hfu, p.mfu
