-- title: From announcement to nodes that you can rent
-- column generation: Generation
-- column kind: Kind
-- column announced: Announced
-- column rented: Rentable
-- column rented_as: As
-- column source: Source
-- note: Rentable: one large cloud as a yardstick; other clouds may have been earlier. Empty: no primary source was found. Rubin: no general offer, but racks that run at CoreWeave, Google Cloud, Azure, Oracle and Nebius, as NVIDIA said on 26 August 2026.
SELECT g.generation AS generation,
       g.kind AS kind,
       g.announced AS announced,
       g.rented AS rented,
       g.rented_as AS rented_as,
       '[1](' || g.source || ')' || CASE WHEN g.rented_source IS NULL THEN '' ELSE ' [2](' || g.rented_source || ')' END AS source
FROM accelerator_generations g
ORDER BY g.announced, g.generation
