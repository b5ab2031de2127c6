-- title: Chips
-- column name: Name
SELECT 1234567.5 AS name FROM chips
ORDER BY name
