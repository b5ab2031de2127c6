-- title: Time in a server of one queue, in times of service
-- column load: Load [%] .0
-- column average: Mean, service varies .1
-- column p99: p99, service varies .1
-- column even: Mean, service always equal .1
-- note: Derived: 1 / (1 - load), 4.605 / (1 - load), and 1 + load / (2 (1 - load)), the queues M/M/1 and M/D/1: Poisson arrivals, one server. A model, not a server for language models; loads are assumed.
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
