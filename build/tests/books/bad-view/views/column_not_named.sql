-- title: Chips
-- column name: Name
SELECT name, memory FROM chips ORDER BY name
