-- title: Chips
-- column name: Name
ATTACH 'other.db' AS other -- ORDER BY
;SELECT 1 ORDER BY 1
