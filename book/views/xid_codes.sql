-- title: Xid codes of the NVIDIA driver
-- column code: Xid
-- column meaning: Meaning
-- column suspect: Suspect
-- column action: First action
-- column verdict: gpu_health verdict
-- note: Codes and first actions from [NVIDIA's catalog](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) as of 29 October 2025 (vendor), shortened. Suspect and verdict are our own reading.
SELECT CASE WHEN last IS NULL THEN CAST(code AS TEXT) ELSE code || ' to ' || last END AS code,
       meaning,
       suspect,
       action,
       coalesce(verdict, 'none') AS verdict
FROM xid_codes
ORDER BY xid_codes.code;
