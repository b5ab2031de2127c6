-- title: Chips
-- column name: Name
SELECT name,
       memry AS name
FROM chips ORDER BY name
