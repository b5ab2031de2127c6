-- title: How long a generation stays the newest
-- column generation: Generation
-- column kind: Kind
-- column announced: Announced
-- column source: Source
-- note: Days of announcement. Parts to rent follow two to four quarters later, and in numbers later still.
SELECT g.generation AS generation,
       g.kind AS kind,
       g.announced AS announced,
       '[1](' || g.source || ')' AS source
FROM accelerator_generations g
ORDER BY g.announced
