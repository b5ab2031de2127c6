-- title: Reported gains of serving techniques
-- column technique: Technique
-- column gain: Reported
-- column against: Baseline
-- column date: Date
-- column source: Source
-- note: Reported by the authors, each on their own model, hardware and load. Gains do not multiply.
SELECT g.technique AS technique, g.gain AS gain, g.against AS against, g.date AS date,
       '[1](' || g.source || ')' AS source
FROM serving_gains AS g
ORDER BY g.rank
