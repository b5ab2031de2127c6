-- title: Devices and parameters of the runs with a public account
-- column run: Run
-- column parameters: Parameters [B] .0
-- column devices: Devices
-- plot: scatter
-- plot x: parameters
-- plot y: devices
-- plot log: x, y
-- plot labels: run
SELECT run, parameters, devices
FROM training_logs
WHERE devices IS NOT NULL
ORDER BY parameters, run;
