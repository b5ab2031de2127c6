-- title: How long Slurm waits, unless the site has set it otherwise
-- column name: Parameter
-- column seconds: Default [s] .0
-- column what: What it decides
-- note: By the manual of Slurm 22.05. `scontrol show config` prints those of your site.
SELECT name, seconds, what FROM slurm_times ORDER BY seconds, name
