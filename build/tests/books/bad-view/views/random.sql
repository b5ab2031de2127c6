-- title: Chips
-- column name: Name
SELECT random() AS name FROM chips ORDER BY name
