-- title: Accounts of training runs that anybody can read
-- column run: Run
-- column year: Year
-- column parameters: Parameters [B] .0
-- column tokens: Tokens [T] .2
-- column devices: Devices
-- column kind: Kind
-- column open: What is public
-- column teaches: What one reads it for
-- column source: Figures from
-- note: Reported by those who trained. A dash where several figures or none are given; tokens to two places.
SELECT run, year, parameters, tokens, devices, kind, '[' || open || '](' || log || ')' AS open,
       teaches, '[1](' || source || ')' AS source
FROM training_logs
ORDER BY year, run;
