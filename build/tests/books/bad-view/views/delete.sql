-- title: Chips
-- column name: Name
DELETE FROM chips WHERE name IN (SELECT name FROM chips ORDER BY name)
