-- title: All-reduce on four nodes
-- column size: Size [MB] .0
-- column busbw: busbw [GBps] .2
-- column algbw: algbw [GBps] .2
-- note: Reported by the Open Book, four nodes, mean over iterations.
SELECT size, busbw, algbw
FROM all_reduce_four_nodes
ORDER BY size;
