-- title: Chips
-- column name: Name
-- column memory: Memory [GB] .1
-- note: From the vendor.
SELECT name, memory FROM chips ORDER BY name
