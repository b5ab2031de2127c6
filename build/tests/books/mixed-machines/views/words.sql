-- title: Words
-- column name: Name
SELECT name FROM timer ORDER BY name
