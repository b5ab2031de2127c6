-- title: Reads per accelerator in MLPerf Storage
-- column workload: Workload
-- column sample: Sample [MB] .3
-- column per_file: Samples per file .0
-- column step: Step [ms] .1
-- column samples: Samples/s .0
-- column files: Files/s .1
-- column rate: Bandwidth [GBps] .2
-- column busy: Required utilization [%] .0
-- column source: Source
-- note: Sample size, batch, step and utilization: settings of the benchmark (reported). Samples, files and bandwidth: derived, for an accelerator that never waits.
SELECT workload || ', ' || accelerator AS workload,
       sample / 1e6 AS sample,
       samples_per_file AS per_file,
       step * 1000 AS step,
       batch / step AS samples,
       batch / step / samples_per_file AS files,
       sample * batch / step / 1e9 AS rate,
       busy AS busy,
       '[1](' || source || ')' AS source
FROM storage_needs
ORDER BY rate DESC, workload;
