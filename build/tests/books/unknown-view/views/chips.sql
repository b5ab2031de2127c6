-- title: Chips
-- column name: Name
SELECT name FROM chips ORDER BY name
