-- title: Terms, each linked to the section that explains it
-- column name: Term
-- column meaning: Meaning
SELECT '**[' || term || '](../../' || place || ')**' || CASE WHEN also IS NULL THEN '' ELSE ' (' || also || ')' END AS name,
       meaning
FROM glossary
ORDER BY lower(term);
