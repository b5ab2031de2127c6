-- title: Links deliver less than their specification
-- column link: Link
-- column method: Measured with
-- column specified: Specified [GBps] .1
-- column reached: Achieved [GBps] .1
-- column share: Share [%] .0
-- column source: Source
-- note: Reported by others, one direction, single runs. Share: derived.
SELECT link,
       method,
       specified,
       reached,
       100.0 * reached / specified AS share,
       '[1](' || source || ')' AS source
FROM reached_links
ORDER BY share DESC, link;
