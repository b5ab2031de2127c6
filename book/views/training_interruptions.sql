-- title: Unexpected interruptions of 16,384 GPUs in 54 days
-- column cause: Cause
-- column kind: Part
-- column interruptions: Interruptions .0
-- column share: Share [%] .1
-- note: Unexpected interruptions of Llama 3 405B, reported; shares are computed from the counts.
SELECT cause,
       kind,
       interruptions,
       100.0 * interruptions / (SELECT SUM(interruptions) FROM training_interruptions) AS share
FROM training_interruptions
ORDER BY interruptions DESC, cause
