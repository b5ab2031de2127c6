-- title: Price of a GB for a month, US East
-- column store: Store
-- column price: A GB for a month [USD] .5
-- column month: 100 TB for a month [USD] .0
-- column times: Against S3 Standard .2
-- column class: Class
-- column source: Source
-- note: List prices read in November 2026 (EFS: March 2026), without requests and transfers. 100 TB, and the ratio: derived.
SELECT p.store, p.price,
       p.price * 100000 AS month,
       p.price / s.price AS times,
       p.class,
       '[1](' || p.source || ')' AS source
FROM storage_prices p
JOIN storage_prices s ON s.store = 'S3 Standard'
ORDER BY p.price, p.store;
