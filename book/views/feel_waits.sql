-- title: What a developer waits for on that disk
-- column wait: Wait
-- column here: Here [s] .2
-- column spread: IQR [%] .0
-- column beside: In memory [s] .2
-- column ratio: Ratio .1
-- column verdict: Verdict
-- note: The same virtual machine, busy with other work; medians. In memory: the same on tmpfs. Cold: all caches had been dropped. New: files were made or removed. torch was imported where it is installed.
-- The newest whole run with real sizes on this machine: a new one makes the table stale.
SELECT CASE p.task WHEN 'package' THEN 'import a package'
                   WHEN 'import' THEN 'import torch'
                   WHEN 'unpack' THEN 'unpack an archive'
                   WHEN 'remove' THEN 'remove the files'
                   WHEN 'clone' THEN 'git clone'
                   WHEN 'status' THEN 'git status'
                   WHEN 'list' THEN 'ls -l'
                   ELSE p.task END || ', ' || p.cache AS wait,
       p.seconds_median AS here,
       p.spread * 100 AS spread,
       b.seconds_median AS beside,
       p.ratio AS ratio,
       p.verdict AS verdict
FROM feel AS p
JOIN records AS r ON r.record = p.record
LEFT JOIN feel AS b ON b.record = p.record AND b.task = p.task AND b.cache = p.cache AND b.place = 'beside'
WHERE p.place = 'path'
  AND r.newest
  AND r.complete
  AND r.profile <> 'toy'
  AND r.machine = 'cpu-x86_64-avx2-2core'
ORDER BY p.seconds_median DESC, wait, r.record
