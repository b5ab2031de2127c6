-- title: The runs behind these accounts in figures
-- column run: Run
-- column parameters: Parameters [B] .0
-- column tokens: Tokens [T] .2
-- column devices: Devices
-- column kind: Kind
-- column source: Figures from
-- note: Reported by those who trained. A dash where none or several are given; devices at the same time, at most. A mixture of experts with all its parameters.
SELECT run, parameters, tokens, devices, kind, '[1](' || source || ')' AS source
FROM training_logs
ORDER BY parameters DESC, run;
