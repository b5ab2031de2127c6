-- title: Times
-- column name: Name
-- column seconds: Time [s] .2
SELECT name, seconds FROM timer WHERE record = 'timer/fine_20201121' ORDER BY name
