-- title: Chips
-- column name: Name
SELECT 'order by' AS name FROM chips -- order by
/* order by */
