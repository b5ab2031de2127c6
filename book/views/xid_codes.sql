-- title: Xid codes of the NVIDIA driver
-- column code: Xid .0
-- column meaning: What happened
-- column suspect: Suspect
-- column action: First action
-- note: Codes and first actions from [NVIDIA's catalogue](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) as of 29 October 2025 (vendor), shortened; the suspect is our reading of it.
SELECT code, meaning, suspect, action
FROM xid_codes
ORDER BY code;
