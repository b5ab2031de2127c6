-- title: Chips
-- column name: Name
-- column memory: Memory [GB] .0
-- column price: Price [USD] .0
SELECT name, memory, 1000 AS price FROM chips ORDER BY name
