-- title: MFU by run, with its accelerator and parallelism
-- column run: Run
-- column accelerator: Accelerator
-- column devices: Count
-- column mfu: MFU [%] .1
-- column layout: Parallelism and notes
-- column source: Source
-- note: Reported by the authors, or by the PaLM paper for the runs before it. bf16 or fp16. Some runs count the masked half of attention; few papers say which.
SELECT run, accelerator, devices, mfu, layout, '[1](' || source || ')' AS source
FROM mfu_runs
ORDER BY date, run, devices
