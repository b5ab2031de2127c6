-- title: How to get each family, and its software below the framework
-- column family: Family
-- column members: Members
-- column how_to_get: How to get it
-- column programmed_with: Software below the framework
-- column source: Source
SELECT family, members, how_to_get, programmed_with, '[1](' || source || ')' AS source
FROM accelerator_families
ORDER BY rowid;
