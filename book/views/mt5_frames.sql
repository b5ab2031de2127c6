-- title: Frames before an overflow in google/mt5-small
-- column module: Module
-- column kind: Class
-- column weight: Weight, max
-- column input: Input, max
-- column output: Output, max
-- column share: Share of 65,504 [%] .1
-- column state: State
-- note: Reported by the Open Book: fp16, the last frames of encoder.block.2, absolute values. Share: derived.
SELECT f.module AS module, f.kind AS kind, f.weight AS weight, f.input AS input, f.output AS output,
       100.0 * f.output / 65504 AS share, f.state AS state
FROM mt5_frames AS f
ORDER BY f.rank
