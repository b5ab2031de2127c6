-- title: Terms, and where they are explained
-- column name: Term
-- column meaning: Meaning
-- column place: Explained in
SELECT '**' || term || '**' || CASE WHEN also IS NULL THEN '' ELSE ' (' || also || ')' END AS name,
       meaning, '[' || chapter || '](../../' || place || ')' AS place
FROM glossary
ORDER BY lower(term);
