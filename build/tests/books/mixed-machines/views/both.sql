-- title: Both
-- column name: Name
-- column seconds: Other time [s] .2
SELECT t.name AS name, u.seconds AS seconds
FROM timer AS t
JOIN records AS r ON r.record = t.record
JOIN timer AS u ON u.name = t.name
JOIN records q ON q.record = u.record
WHERE r.machine = 'cpu-x86_64-2core'
ORDER BY t.name
