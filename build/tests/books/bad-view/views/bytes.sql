-- title: Chips
-- column name: Name
SELECT x'00ff' AS name FROM chips ORDER BY 1
