-- title: Chips
-- column name: Name .2
SELECT 2e26 AS name FROM chips
ORDER BY 1
