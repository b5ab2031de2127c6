-- title: Slurm timeouts and their defaults
-- column name: Parameter
-- column seconds: Default [s] .0
-- column what: Meaning
-- note: Defaults of the Slurm 22.05 manual. `scontrol show config` prints your site's.
SELECT name, seconds, what FROM slurm_times ORDER BY seconds, name
