-- title: What to read each run's logbook for
-- column run: Run
-- column hardware: Hardware
-- column open: Account
-- column teaches: What to read it for
-- note: Hardware as the authors report it, the maximum in use together. No number where none or several are given.
SELECT run || ', ' || year AS run,
       coalesce(devices || ' ', '') || kind AS hardware,
       '[' || open || '](' || log || ')' || coalesce(', [' || second || '](' || second_log || ')', '') || coalesce(' ([copy](' || backup || '))', '') AS open,
       teaches
FROM training_logs
ORDER BY year, run;
