-- title: Accounts of training runs that anybody can read
-- column run: Run
-- column open: What is public
-- column teaches: What one reads it for
SELECT run || ', ' || year AS run, '[' || open || '](' || log || ')' AS open, teaches
FROM training_logs
ORDER BY year, run;
