-- title: Chips
-- column name: Name
SELECT 9e999 AS name FROM chips ORDER BY 1
