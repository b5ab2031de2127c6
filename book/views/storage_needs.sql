-- title: What one accelerator reads in MLPerf Storage
-- column workload: Workload
-- column sample: Sample [MB] .3
-- column per_file: Samples in a file .0
-- column step: Step [ms] .1
-- column samples: Samples/s .0
-- column files: Files/s .1
-- column rate: Rate [GBps] .2
-- column busy: Must be busy [%] .0
-- column source: Source
-- note: Size of a sample, batch, step and share: the settings of the benchmark (reported). Samples, files and rate of a second: derived, for an accelerator that never waits.
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
