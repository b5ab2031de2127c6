-- title: Chips
-- column name: Name
SELEC name FROM chips ORDER BY name
