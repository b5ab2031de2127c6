-- title: One published SLA: allowed downtime and credits
-- column provider: Service
-- column what: Counted per
-- column uptime: Uptime below [%] .1
-- column hours: Downtime per month of 730 h [h] .1
-- column credit: Credit [%] .0
-- column source: Source
-- note: Downtime: derived, (100 - uptime) / 100 * 730. A credit is money off a later bill, not a refund, and you have to request it. Version of May 2022: check the current page.
SELECT s.provider AS provider,
       s.what AS what,
       s.uptime AS uptime,
       (100.0 - s.uptime) / 100.0 * 730.0 AS hours,
       s.credit AS credit,
       '[1](' || s.source || ')' AS source
FROM sla_credits s
ORDER BY s.uptime DESC, s.provider
