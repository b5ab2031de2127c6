-- title: Questions for a provider: operation and security
-- column number: No
-- column ask: Question
-- column demand: Demand
-- column tool: Measured by
SELECT q.number AS number,
       q.ask AS ask,
       q.demand AS demand,
       CASE WHEN q.tool IS NULL THEN 'in writing'
            ELSE '[' || replace(q.tool, rtrim(q.tool, replace(q.tool, '/', '')), '') || '](../../../' || q.tool || ')' END AS tool
FROM provider_questions q
WHERE q.part = 'operation'
ORDER BY CAST(substr(q.number, 2) AS INTEGER), q.number
