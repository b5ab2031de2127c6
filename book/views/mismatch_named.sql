-- title: Mismatched collectives and what detects them
-- column fault: Fault
-- column recorder: Flight recorder
-- column detail: DETAIL
-- column barrier: Monitored barrier
-- column words: Flight recorder's message
-- note: Measured in a small trial run: three gloo ranks on a CPU, of which rank 2 is the faulty one.
SELECT a.fault AS fault,
       CASE WHEN a.named THEN 'rank ' || a.ranks ELSE 'does not see it' END AS recorder,
       CASE WHEN b.named THEN 'rank ' || b.ranks ELSE 'does not see it' END AS detail,
       CASE WHEN c.named THEN 'rank ' || c.ranks ELSE 'does not see it' END AS barrier,
       a.words AS words
FROM collective_mismatch AS a
JOIN collective_mismatch AS b ON b.record = a.record AND b.fault = a.fault AND b.way = 'detail'
JOIN collective_mismatch AS c ON c.record = a.record AND c.fault = a.fault AND c.way = 'barrier'
JOIN records AS r ON r.record = a.record
WHERE a.way = 'recorder'
  AND r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest
  AND r.complete
  AND r.profile = 'demo'
ORDER BY CASE a.fault WHEN 'op' THEN 1 WHEN 'shape' THEN 2 WHEN 'order' THEN 3 ELSE 4 END,
         a.fault, r.record
