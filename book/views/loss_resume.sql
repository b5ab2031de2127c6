-- title: A sampler that begins anew at each resume
-- column curve: Curve
-- column step: Steps after the first stop .0
-- column loss: Loss .2
-- note: Measured in a toy: a decoder of 59,664 weights on one CPU core, a made-up language, seed 0. Means of ten steps. One run is stopped after step 400 and then every 20 steps, 13 times, and reads the first 20 batches again each time; after the last stop it reads on.
-- plot: line
-- plot x: step
-- plot y: loss
-- plot by: curve
SELECT c.curve AS curve,
       c.step - 400 AS step,
       c.loss AS loss
FROM (
    SELECT l.arm || ', training' AS curve, l.step AS step, l.loss AS loss
    FROM loss_patterns AS l
    JOIN records AS r ON r.record = l.record
    WHERE r.machine = 'cpu-x86_64-avx512_bf16-2core'
      AND r.newest AND r.complete AND r.profile <> 'toy' AND l.experiment = 'resume'
      AND l.arm IN ('never stopped', 'sampler begins anew')
    UNION ALL
    SELECT l.arm || ', held-out' AS curve, l.step AS step, l.held_out_loss AS loss
    FROM loss_patterns AS l
    JOIN records AS r ON r.record = l.record
    WHERE r.newest AND r.complete AND r.profile <> 'toy' AND l.experiment = 'resume'
      AND l.arm = 'sampler begins anew'
) AS c
ORDER BY c.curve, c.step
