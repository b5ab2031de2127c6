-- title: Chips
-- column: Name
SELECT name FROM chips ORDER BY name
