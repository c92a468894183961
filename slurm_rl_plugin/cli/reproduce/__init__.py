"""`slurm-rl reproduce`: the studies of `papers`, one module a study."""
