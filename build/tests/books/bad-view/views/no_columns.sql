-- title: Chips
SELECT name FROM chips ORDER BY name
