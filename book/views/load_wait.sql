-- title: Waiting time explodes as load nears capacity
-- column load: Load [%] .0
-- column average: mean, M/M/1 [service times] .1
-- column p99: p99, M/M/1 [service times] .1
-- column even: mean, M/D/1 [service times] .1
-- note: Derived: 1 / (1 - load), 4.605 / (1 - load), and 1 + load / (2 (1 - load)), for Poisson arrivals at one server, with exponential (M/M/1) or equal (M/D/1) service times. A model, not an inference engine. Loads are assumed.
-- plot: line
-- plot x: load
-- plot y: average, p99, even
-- plot log: y
SELECT l.load AS load,
       1.0 / (1 - l.load / 100.0) AS average,
       4.605 / (1 - l.load / 100.0) AS p99,
       1 + l.load / 100.0 / (2 * (1 - l.load / 100.0)) AS even
FROM load_levels AS l
ORDER BY l.load
