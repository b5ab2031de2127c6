-- title: Chips
-- column name: Name
SELECT name FROM pragma_table_info('chips') ORDER BY name
