"""`slurm-rl reproduce`: the studies of `papers`; what each does stands there."""
