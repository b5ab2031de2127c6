-- title: Times
-- column name: Name
-- column seconds: Time [s] .2
SELECT name, seconds FROM timer WHERE record = 'timr/fine_20201120' ORDER BY name
