-- title: TITLE
-- column name: Name
-- column seconds: Time [s] .1
SELECT name, seconds FROM NAME ORDER BY name
