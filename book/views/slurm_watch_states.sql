-- title: What slurm_status says of four watches
-- column watch: Watch
-- column state: State
-- column running: Running .0
-- column pending: Waiting .0
-- column reason: Reason
-- column dependency: Dependency
-- column last_state: The last one
-- note: Of a queue that is part of the tool and never was: this shows the shape of an answer.
SELECT s.watch, s.state, s.running, s.pending, s.reason, s.dependency, s.last_state
FROM slurm_status AS s
JOIN records AS r ON r.record = s.record
WHERE r.machine = 'cpu-x86_64-avx2-2core'
  AND r.newest AND r.complete AND r.profile = 'toy'
ORDER BY CASE s.state WHEN 'running' THEN 0 WHEN 'pending' THEN 1 WHEN 'stuck' THEN 2 ELSE 3 END, s.watch
