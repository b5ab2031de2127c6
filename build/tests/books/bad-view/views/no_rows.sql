-- title: Chips
-- column name: Name
SELECT name FROM chips
WHERE name = 'A1OO' ORDER BY name
