-- title: The ring and the switch that adds, eight H100
-- column gpus: GPUs .0
-- column ring: busbw of the ring [GBps] .0
-- column nvls: busbw of NVLS [GBps] .0
-- column gain: Gain .2
-- column algbw: algbw of NVLS [GBps] .0
-- column wire: On the wire with NVLS [GBps] .0
-- note: busbw: reported, 2 to 4 GiB, NCCL_ALGO set to each; about 365 to 370 counts as 370. The others: derived. algbw is busbw over 2 (n - 1) / n; on the wire goes 1 + 1 / n times the buffer.
SELECT gpus,
       ring,
       nvls,
       1.0 * nvls / ring AS gain,
       nvls / (2.0 * (gpus - 1) / gpus) AS algbw,
       nvls / (2.0 * (gpus - 1) / gpus) * (1 + 1.0 / gpus) AS wire
FROM nvls_by_gpus
ORDER BY gpus;
