-- title: Public accounts of training runs
-- column run: Run
-- column hardware: Hardware
-- column open: Account
-- column teaches: What to read it for
-- note: Hardware as reported by those who trained, at most at the same time; without a number where none or several are given.
SELECT run || ', ' || year AS run,
       coalesce(devices || ' ', '') || kind AS hardware,
       '[' || open || '](' || log || ')' || coalesce(', [' || second || '](' || second_log || ')', '') || coalesce(' ([copy](' || backup || '))', '') AS open,
       teaches
FROM training_logs
ORDER BY year, run;
