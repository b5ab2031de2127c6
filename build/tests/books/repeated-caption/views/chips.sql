-- title: Memory of chips
-- column name: Name
-- column memory: Memory [GB]
SELECT name, memory FROM chips ORDER BY name
