-- title: Local NVMe drive with 4 KiB requests
-- column load: Load
-- column requests: IOPS
-- column rate: Bandwidth [GBps] .2
-- column latency: Mean latency [ms] .1
-- column in_flight: In flight, by Little's law .0
-- note: Samsung 980 PRO, 2 TB, 16 processes with 64 requests each, 20 Dec 2023. IOPS and latency: reported. Bandwidth: derived, IOPS times 4,096 bytes. In flight: derived, IOPS times mean latency.
SELECT pattern || ', files of ' || CASE file_kib WHEN 16 THEN '16 KiB' WHEN 1024 THEN '1 MiB' ELSE '1 GiB' END AS load,
       requests_per_second AS requests,
       requests_per_second * block_kib * 1024.0 / 1e9 AS rate,
       latency,
       requests_per_second * latency / 1000.0 AS in_flight
FROM fio_published
WHERE block_kib = 4 AND pattern = 'read'
ORDER BY pattern, file_kib
