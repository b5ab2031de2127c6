-- title: Times
-- column name: Name
-- column seconds: Time [s] .2
SELECT name, seconds FROM timer ORDER BY name
