-- title: Chips
-- column name: Name
SELECT load_extension('x') AS name FROM chips ORDER BY name
