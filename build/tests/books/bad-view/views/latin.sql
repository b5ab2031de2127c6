-- title: Désk prices
-- column name: Name
SELECT name FROM chips ORDER BY name
