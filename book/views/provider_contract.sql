-- title: Questions for a provider: contract
-- column number: No
-- column ask: Question
-- column demand: Demand
SELECT q.number AS number,
       q.ask AS ask,
       q.demand AS demand
FROM provider_questions q
WHERE q.part = 'contract'
ORDER BY CAST(substr(q.number, 2) AS INTEGER), q.number
