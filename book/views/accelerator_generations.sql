-- title: Accelerator generations: announced and rentable
-- column generation: Generation
-- column kind: Kind
-- column announced: Announced
-- column rented: Rentable
-- column rented_as: First seen as
-- column source: Source
-- note: Rentable: at one large cloud, others may have been earlier. A dash: no primary source found. Rubin: no general offer, but racks running at CoreWeave, Google Cloud, Azure, Oracle and Nebius, according to NVIDIA on 26 August 2026.
SELECT g.generation AS generation,
       g.kind AS kind,
       g.announced AS announced,
       g.rented AS rented,
       g.rented_as AS rented_as,
       '[1](' || g.source || ')' || CASE WHEN g.rented_source IS NULL THEN '' ELSE ' [2](' || g.rented_source || ')' END AS source
FROM accelerator_generations g
ORDER BY g.announced, g.generation
