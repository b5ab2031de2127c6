-- title: 100 TB for a month, cheapest first
-- column store: Store
-- column price: Per GB and month [USD] .5
-- column month: 100 TB, per month [USD] .0
-- column times: Relative to S3 Standard .2
-- column source: Source
-- note: List prices (AWS: US East), read between March and November 2026, without requests and transfers. 100 TB and the ratio: derived.
SELECT p.store, p.price,
       p.price * 100000 AS month,
       p.price / s.price AS times,
       '[1](' || p.source || ')' AS source
FROM storage_prices p
JOIN storage_prices s ON s.store = 'S3 Standard'
ORDER BY p.price, p.store;
