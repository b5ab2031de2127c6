-- title: Chips
-- column name: Name
SELECT name FROM chips WHERE ORDER BY name
