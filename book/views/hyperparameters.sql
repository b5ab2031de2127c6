-- title: Learning rate, batch size and Adam settings by run
-- column run: Run
-- column size: Parameters [B] .0
-- column rate: Peak learning rate, in 1e-5 .0
-- column warmup: Warm-up
-- column schedule: Schedule
-- column batch: Batch [M tokens]
-- column betas: Beta1, beta2
-- column decay: Weight decay
-- column clip: Clip .1
-- column std: Initialization std
-- column source: Source
-- note: Reported by the sources. A dash means not stated or not applicable.
SELECT h.run AS run,
       h.parameters AS size,
       100000.0 * h.rate AS rate,
       h.warmup AS warmup,
       h.schedule AS schedule,
       h.batch AS batch,
       h.betas AS betas,
       h.weight_decay AS decay,
       h.clip AS clip,
       h.std AS std,
       '[1](' || h.source || ')' AS source
FROM hyperparameters h
ORDER BY h.date, h.run
