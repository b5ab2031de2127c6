-- title: Gains that papers report
-- column technique: Technique
-- column gain: Reported
-- column against: Against
-- column date: Date
-- column source: Source
-- note: Reported by the authors of each paper, each on its own model, hardware and load; gains do not multiply.
SELECT g.technique AS technique, g.gain AS gain, g.against AS against, g.date AS date,
       '[1](' || g.source || ')' AS source
FROM serving_gains AS g
ORDER BY g.rank
