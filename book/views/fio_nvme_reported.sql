-- title: A local NVMe drive under requests of 4 KiB
-- column load: Load
-- column requests: Requests per second
-- column rate: Rate [GBps] .2
-- column latency: Mean latency [ms] .1
-- column in_flight: In flight, by Little's law .0
-- note: Samsung 980 PRO, 2 TB, 16 processes with 64 requests each, 20 Dec 2023. Requests and latency: reported. Rate: derived, requests times 4,096 bytes. In flight: derived, requests per second times mean latency.
SELECT pattern || ', files of ' || CASE file_kib WHEN 16 THEN '16 KiB' WHEN 1024 THEN '1 MiB' ELSE '1 GiB' END AS load,
       requests_per_second AS requests,
       requests_per_second * block_kib * 1024.0 / 1e9 AS rate,
       latency,
       requests_per_second * latency / 1000.0 AS in_flight
FROM fio_published
WHERE block_kib = 4 AND pattern = 'read'
ORDER BY pattern, file_kib
