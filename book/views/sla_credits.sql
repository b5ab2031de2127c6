-- title: One published service level, and what it allows
-- column provider: Service
-- column what: Counted of
-- column uptime: Uptime below [%] .1
-- column hours: Hours away in a month of 730 .1
-- column credit: Credit [%] .0
-- column source: Source
-- note: Hours away: derived, (100 - uptime) / 100 * 730. A credit is money off a later bill, not money back, and is paid on request. Figures of the version of May 2022; check them on the current page.
SELECT s.provider AS provider,
       s.what AS what,
       s.uptime AS uptime,
       (100.0 - s.uptime) / 100.0 * 730.0 AS hours,
       s.credit AS credit,
       '[1](' || s.source || ')' AS source
FROM sla_credits s
ORDER BY s.uptime DESC, s.provider
