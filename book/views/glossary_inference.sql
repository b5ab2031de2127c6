-- title: Terms of inference
-- column name: Term
-- column meaning: Meaning
SELECT '**' || term || '**' || CASE WHEN also IS NULL THEN '' ELSE ' (' || also || ')' END AS name,
       meaning
FROM glossary
WHERE place LIKE 'inference/%' OR term = 'goodput'
ORDER BY lower(term);
