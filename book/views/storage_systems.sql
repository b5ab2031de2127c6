-- title: File systems and services for training
-- column system: System
-- column kind: Kind
-- column metadata: Metadata is kept by
-- column client: Client on the node
-- column licence: License
-- column source: Source
-- note: From each system's documentation, read in November 2026. Parallel: a client talks to many data servers at the same time. Network: it talks to one address. Object: whole objects over HTTP.
SELECT system, kind, metadata, client, licence,
       '[1](' || source || ')' AS source
FROM storage_systems
ORDER BY CASE kind WHEN 'parallel' THEN 1 WHEN 'network' THEN 2 WHEN 'object' THEN 3 ELSE 4 END, system;
