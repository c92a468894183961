"""`slurm-rl check` and `slurm-rl pbs-setup`: whether a daemon could do its work here."""
