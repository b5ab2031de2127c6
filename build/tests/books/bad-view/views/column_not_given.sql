-- title: Chips
-- column name: Name
SELECT memory FROM chips ORDER BY memory
