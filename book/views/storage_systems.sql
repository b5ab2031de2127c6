-- title: File systems and services that training meets
-- column system: System
-- column kind: Kind
-- column metadata: Names, sizes and owners are kept by
-- column client: A node needs
-- column licence: Licence
-- column source: Source
-- note: From the documentation of each, read in November 2026. Kinds: parallel means that a client talks to many data servers at once; network, that it talks to one address; object, that whole objects are put and got over HTTP.
SELECT system, kind, metadata, client, licence,
       '[1](' || source || ')' AS source
FROM storage_systems
ORDER BY CASE kind WHEN 'parallel' THEN 1 WHEN 'network' THEN 2 WHEN 'object' THEN 3 ELSE 4 END, system;
