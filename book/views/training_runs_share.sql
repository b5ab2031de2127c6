-- title: Share of the bf16 peak over a whole published run
-- column run: Run
-- column share: Share of the peak [%] .0
-- note: The same figures as in the table of runs.
-- plot: bar
-- plot x: run
-- plot y: share
SELECT r.run AS run,
       100.0 * 6.0 * r.parameters * r.tokens * 1e9 / (r.device_hours * 3600.0 * f.tflops) AS share
FROM training_runs r
JOIN accelerator_tflops f ON f.accelerator = r.peak_of AND f.dtype = 'bf16'
ORDER BY share DESC, r.run
