-- title: Chips
-- column name: Name
SELECT name FROM chip ORDER BY name
